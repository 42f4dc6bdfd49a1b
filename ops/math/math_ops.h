// The groups of the math family; RegisterMathOps calls each.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterArithmetic(OpRegistry& registry);
void RegisterAddN(OpRegistry& registry);
void RegisterComparisons(OpRegistry& registry);
void RegisterExponentials(OpRegistry& registry);
void RegisterRounding(OpRegistry& registry);
void RegisterTrigonometric(OpRegistry& registry);
void RegisterAxisScans(OpRegistry& registry);
void RegisterExtremes(OpRegistry& registry);
void RegisterL2Loss(OpRegistry& registry);
void RegisterTopK(OpRegistry& registry);
void RegisterSums(OpRegistry& registry);
void RegisterMatMul(OpRegistry& registry);

// OpDef::flops of MatMul and FusedMatMul.
double MatMulFlops(const KernelSpec& of);

}  // namespace belfry::ops
