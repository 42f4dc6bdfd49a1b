// The list of op families.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

// Each adds the ops of one family: definitions, shape rules, gradients and CPU kernels.
void RegisterArrayOps(OpRegistry& registry);     // ops/array.h
void RegisterMathOps(OpRegistry& registry);      // ops/math.h
void RegisterNnOps(OpRegistry& registry);        // ops/nn.h
void RegisterRandomOps(OpRegistry& registry);    // ops/random.h
void RegisterStateOps(OpRegistry& registry);     // ops/state.h
void RegisterSummaryOps(OpRegistry& registry);   // ops/summary.h
void RegisterTrainingOps(OpRegistry& registry);  // ops/training.h

// Adds the kernels for GPUs, to ops that are there; none in a build without CUDA.
void AddGpuKernels(OpRegistry& registry);

// A new registry with all of them, to which a program adds its own ops:
//   OpRegistry registry = ops::MakeBuiltinOps();
//   registry.Add({.name = "Mine", ...});
//   Graph graph(registry);
OpRegistry MakeBuiltinOps();

}  // namespace belfry::ops
