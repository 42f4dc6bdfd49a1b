// Ops with names, types and kernels of every kind, whose kernels do nothing.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry {

// On CPU and GPU, float only on GPU: Const, Placeholder, Variable, Assign (ref), Update2 (two refs), MatMul, AddN,
// Shape (shape only), Reshape (view), Relu. On one of them: CpuOnly, GpuOnly, GpuSource (no inputs), CpuAssign,
// GpuAssign. NoOp.
OpRegistry FakeOps();

}  // namespace belfry
