// The engines that compute convolutions on CPUs, in the order in which they are asked. Internal.
#pragma once

#include <functional>

#include "absl/types/span.h"
#include "ops/convolution/engines/engine_impl.h"

namespace belfry::ops {

// All engines of a pass. The first that serves a node computes it; the last, plain loops, serves every node.
absl::Span<const ConvolutionEngine* const> ConvolutionEngines(ConvolutionPass pass);
// The first that may serve the node, though its library may turn out to have no kernel for it. Null: none.
const ConvolutionEngine* FirstEngine(ConvolutionPass pass, const ConvolutionNode& node);

// The kernel of the first engine that serves the node; with `fused`, of those that fuse what the op adds to the pass.
// Nothing if none does. Errors: those of making kernels.
MadeKernel MakeByEngine(ConvolutionPass pass, const ConvolutionNode& node, bool fused = false);

// True for nodes whose first engine takes numbers of 16 bits as they are, on any processor (WithHalfPrecision).
std::function<bool(const KernelSpec&)> TakesHalfPrecision(ConvolutionPass pass);

}  // namespace belfry::ops
