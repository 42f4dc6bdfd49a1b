// The groups of the math family; RegisterMathOps calls each.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterArithmetic(OpRegistry& registry);
void RegisterAddN(OpRegistry& registry);
void RegisterSums(OpRegistry& registry);
void RegisterMatMul(OpRegistry& registry);

}  // namespace belfry::ops
