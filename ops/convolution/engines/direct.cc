#include "ops/convolution/engines/direct_impl.h"

#include <algorithm>

#include "ops/activation/activation_ops.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/engines/direct_kernel_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// Channels from which products are faster than oneDNN's kernels. Those, measured with AVX2, are as fast for filters of
// 1 x 1 with few channels on one side.
constexpr int64_t kManyChannels = 16, kManyPointwiseChannels = 128;
// Outputs of an image up to which Winograd's algorithm is slower, since most of a tile is outside of it.
constexpr int64_t kFewOutputs = 4, kFewOutputsOfGradient = 9;

bool IsDirect(const ConvolutionGeometry& s) {
  return s.dtype == DType::kFloat32 && s.groups == 1 && !onednn::ProductsRepeat(s.dtype) &&
         std::min(s.c, s.k) >= kManyChannels;
}
int64_t OutputsOf(const ConvolutionGeometry& s) { return s.out_h() * s.out_w(); }

bool DirectServes(const ConvolutionNode& node) {
  return IsDirect(node.shape) && node.IsReluAtMost() && node.shape.k % simd::Vector<float>::kLanes == 0;
}
bool DirectServesFewOutputs(const ConvolutionNode& node) {
  return OutputsOf(node.shape) <= kFewOutputs && DirectServes(node);
}
bool DirectServesWeights(const ConvolutionNode& node) {
  const ConvolutionGeometry& s = node.shape;
  const bool pointwise = s.r * s.s == 1 && std::max(s.stride_h, s.stride_w) == 1;
  return IsDirect(s) && (!pointwise || std::min(s.c, s.k) >= kManyPointwiseChannels);
}
bool DirectServesWeightsOfFewOutputs(const ConvolutionNode& node) {
  return OutputsOf(node.shape) <= kFewOutputsOfGradient && DirectServesWeights(node);
}

MadeKernel MakeDirectForward(const ConvolutionNode& node) {
  const DirectForward convolution(node.shape);
  const auto pack = [&](const void* filter, void* packed) {
    convolution.Pack(static_cast<const float*>(filter), static_cast<float*>(packed));
    return true;
  };
  const auto filter_bytes = static_cast<size_t>(convolution.filter_floats()) * sizeof(float);
  const auto* const ready = static_cast<const float*>(node.spec.Prepared(1, filter_bytes, pack));
  const bool bias = node.has_bias(), relu = node.relu();
  const auto workspace = static_cast<size_t>(convolution.workspace_floats()) * sizeof(float);
  return Kernel{[convolution, bias, relu, ready](const KernelContext& context) {
                  float* copies = static_cast<float*>(context.workspace);
                  const float* filter = ready;
                  if (filter == nullptr) {
                    convolution.Pack(context.input<float>(1), copies);
                    filter = copies;
                    copies += convolution.filter_floats();
                  }
                  convolution.Run(context.input<float>(0), filter, bias ? context.input<float>(2) : nullptr, relu,
                                  context.output<float>(0), copies);
                  return absl::OkStatus();
                },
                workspace + (ready == nullptr ? filter_bytes : 0)};
}

MadeKernel MakeDirectBackwardWeights(const ConvolutionNode& node) {
  const DirectFilterGradient gradient(node.shape);
  return WithBiasGradient(node.spec, Kernel{[gradient](const KernelContext& context) {
                                              gradient.Run(context.input<float>(0), context.input<float>(2),
                                                           context.output<float>(0),
                                                           static_cast<float*>(context.workspace));
                                              return absl::OkStatus();
                                            },
                                            static_cast<size_t>(gradient.workspace_floats()) * sizeof(float)});
}

}  // namespace

const ConvolutionEngine kDirectForward = {"direct", &DirectServes, &MakeDirectForward};
const ConvolutionEngine kDirectForwardOfFewOutputs = {"direct", &DirectServesFewOutputs, &MakeDirectForward};
const ConvolutionEngine kDirectBackwardWeights = {"direct", &DirectServesWeights, &MakeDirectBackwardWeights};
const ConvolutionEngine kDirectBackwardWeightsOfFewOutputs = {"direct", &DirectServesWeightsOfFewOutputs,
                                                              &MakeDirectBackwardWeights};

}  // namespace belfry::ops
