// The ops that come with Belfry, by family.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

// Each adds the ops of one family: definitions, shape rules, gradients and CPU kernels.
void RegisterActivationOps(OpRegistry& registry);     // ops/nn.h
void RegisterAttentionOps(OpRegistry& registry);      // ops/attention.h
void RegisterCollectiveOps(OpRegistry& registry);     // ops/collective.h
void RegisterConvolutionOps(OpRegistry& registry);    // ops/nn.h
void RegisterCopyOps(OpRegistry& registry);           // ops/array.h
void RegisterElementwiseOps(OpRegistry& registry);    // ops/math.h
void RegisterIndexOps(OpRegistry& registry);          // ops/array.h
void RegisterLossOps(OpRegistry& registry);           // ops/nn.h
void RegisterNormalisationOps(OpRegistry& registry);  // ops/nn.h
void RegisterPoolingOps(OpRegistry& registry);        // ops/nn.h
void RegisterProductOps(OpRegistry& registry);        // ops/math.h
void RegisterRandomOps(OpRegistry& registry);         // ops/random.h
void RegisterRecurrentOps(OpRegistry& registry);      // ops/recurrent.h
void RegisterReductionOps(OpRegistry& registry);      // ops/math.h
void RegisterResizeOps(OpRegistry& registry);         // ops/nn.h
void RegisterStateOps(OpRegistry& registry);          // ops/state.h
void RegisterSummaryOps(OpRegistry& registry);        // ops/summary.h
void RegisterTrainingOps(OpRegistry& registry);       // ops/training.h

// A new registry with all of them, to which a program adds its own ops:
//   OpRegistry registry = ops::MakeBuiltinOps();
//   registry.Add({.name = "Mine", ...});
//   registry.AddRewrite({"mine", FuseMine});
//   Graph graph(registry);
OpRegistry MakeBuiltinOps();

}  // namespace belfry::ops

namespace belfry {

// All ops that come with Belfry, and their rewrites: `Graph graph(BuiltinOps());`. Made at the first call, and never
// destroyed. Thread-safe.
const OpRegistry& BuiltinOps();

}  // namespace belfry
