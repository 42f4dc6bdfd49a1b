// Fake ops of every kind, with names, types and kernels that do nothing.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry {

// On CPU and GPU, where the GPU has float only: Const, Placeholder, Variable, Assign (ref), Update2 (two refs), MatMul,
// AddN, Shape (shape only), Reshape (view), Relu. On one of them: CpuOnly, GpuOnly, GpuSource (no inputs), CpuAssign,
// GpuAssign. Also NoOp.
OpRegistry FakeOps();

}  // namespace belfry
