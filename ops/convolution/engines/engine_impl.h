// An engine: one way to compute a pass of a convolution on CPUs. No engine knows another one; the order in which they
// are tried is in engines.cc. Internal.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/kernel.h"
#include "ops/common/convolution_geometry.h"
#include "ops/common/epilogue.h"

namespace belfry::ops {

// A node that convolves, or computes a gradient of a convolution:
//   forward        inputs x, filter [, bias]; output y
//   backward data  inputs x (shape only), filter, dy [, output of a ReLU [, addend]]; output dx
//   backward weights  inputs x, filter (shape only), dy; outputs dfilter [, dbias]
struct ConvolutionNode {
  const KernelSpec& spec;
  ConvolutionGeometry shape;
  Epilogue epilogue = {};  // of a forward pass

  bool has_bias() const { return spec.inputs.size() > 2; }
  bool wants_bias_gradient() const { return spec.outputs.size() > 1; }
  // True if no activation but a ReLU follows.
  bool IsReluAtMost() const {
    return epilogue.activation == Activation::kNone || epilogue.activation == Activation::kRelu;
  }
  bool relu() const { return epilogue.activation == Activation::kRelu; }
};

// Nothing: the library that the engine calls has no kernel for the node.
using MadeKernel = absl::StatusOr<std::optional<Kernel>>;

// A row of the list of a pass.
struct ConvolutionEngine {
  const char* name;  // for reports
  // True if the engine computes the node and is expected to be faster than those after it. By shape, dtype, epilogue
  // and processor. Asked for nodes without empty tensors only, unless `empty`.
  bool (*serves)(const ConvolutionNode& node);
  MadeKernel (*make)(const ConvolutionNode& node);
  bool fuses = true;            // with bias and activation; with mask and addend; with the gradient of the bias
  bool half_precision = false;  // converts bfloat16 as it goes, on any processor
  bool empty = false;           // serves nodes with empty tensors
};

}  // namespace belfry::ops
