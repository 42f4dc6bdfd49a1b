#include "tests/ops/cases/cases.h"

namespace belfry::harness {

std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  for (const auto& list : {
           &ArithmeticCases, &ArrayCases,   &ArrayValueCases, &AttentionCases, &BatchNormCases, &ConvolutionCases,
           &EinsumCases,     &ImageCases,   &IndexCases,      &MatMulCases,    &NnCases,        &NnImageCases,
           &NormCases,       &RandomCases,  &RecurrentCases,  &ReductionCases, &ResizeCases,    &ScanCases,
           &StateCases,      &SummaryCases, &TowerSumCases,   &TrainingCases,  &UnaryCases,
       }) {
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  }
  return all;
}

}  // namespace belfry::harness
