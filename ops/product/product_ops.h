// Registration of the matrix products, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterMatMul(OpRegistry& registry);  // matmul.cc

// OpDef::flops of MatMul and FusedMatMul.
double MatMulFlops(const KernelSpec& of);

}  // namespace belfry::ops
