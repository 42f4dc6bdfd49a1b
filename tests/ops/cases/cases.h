// The lists of cases, one function per source file of this folder.
#pragma once

#include <vector>

#include "tests/ops/harness/op_case.h"

namespace belfry::harness {

std::vector<OpCase> ArithmeticCases();
std::vector<OpCase> ArrayCases();
std::vector<OpCase> ArrayValueCases();
std::vector<OpCase> AttentionCases();
std::vector<OpCase> BatchNormCases();
std::vector<OpCase> ConvolutionCases();
std::vector<OpCase> EinsumCases();
std::vector<OpCase> ImageCases();
std::vector<OpCase> IndexCases();
std::vector<OpCase> MatMulCases();
std::vector<OpCase> NnCases();
std::vector<OpCase> NnImageCases();
std::vector<OpCase> NormCases();
std::vector<OpCase> RandomCases();
std::vector<OpCase> RecurrentCases();
std::vector<OpCase> ReductionCases();
std::vector<OpCase> ResizeCases();
std::vector<OpCase> ScanCases();
std::vector<OpCase> StateCases();
std::vector<OpCase> SummaryCases();
std::vector<OpCase> TowerSumCases();
std::vector<OpCase> TrainingCases();
std::vector<OpCase> UnaryCases();

// All cases.
std::vector<OpCase> AllCases();

}  // namespace belfry::harness
