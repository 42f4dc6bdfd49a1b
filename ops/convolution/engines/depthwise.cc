#include "ops/convolution/engines/depthwise_impl.h"

#include <numeric>

#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/engines/depthwise_kernel_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// Elements of a batch of images from which memory bounds a convolution. All limits here are measured with AVX2.
constexpr int64_t kLargeBatch = 1 << 20;
// Up to this number of channels, oneDNN's passes over large images are as fast.
constexpr int64_t kFewChannels = 64;

bool IsDepthwise(const ConvolutionGeometry& s) {
  return s.dtype == DType::kFloat32 && s.groups == s.c && s.groups == s.k && s.c % simd::Vector<float>::kLanes == 0 &&
         !onednn::ProductsRepeat(s.dtype);
}
bool IsThreeByThree(const ConvolutionGeometry& s) { return s.r == 3 && s.s == 3; }
bool IsLarge(const ConvolutionGeometry& s, int64_t times = 1) { return s.n * s.h * s.w * s.c >= times * kLargeBatch; }
// Columns that do not share sets of the L1 cache.
int64_t ColumnsApart(const ConvolutionGeometry& s) {
  constexpr int64_t kWayFloats = 1024;
  return kWayFloats / std::gcd(s.c, kWayFloats);
}

bool DepthwiseServes(const ConvolutionNode& node) {
  const ConvolutionGeometry& s = node.shape;
  return IsDepthwise(s) && IsThreeByThree(s) && s.c > kFewChannels && ColumnsApart(s) >= 8 &&
         IsLarge(s, depthwise::Slides(s) ? 1 : 2) && node.IsReluAtMost();
}
bool DepthwiseServesData(const ConvolutionNode& node) {
  const ConvolutionGeometry& s = node.shape;
  return IsDepthwise(s) && depthwise::Slides(s) && ColumnsApart(s) >= 4 && (s.c > kFewChannels || !IsLarge(s));
}
// With AVX2, oneDNN 2.6 computes gradients of other filters than 3 x 3 one group after the other.
bool DepthwiseServesWeights(const ConvolutionNode& node) {
  const ConvolutionGeometry& s = node.shape;
  return IsDepthwise(s) && (!IsThreeByThree(s) || (depthwise::Slides(s) ? ColumnsApart(s) > 1 : IsLarge(s, 2)));
}

MadeKernel MakeDepthwiseForward(const ConvolutionNode& node) {
  return Kernel{[shape = node.shape, bias = node.has_bias(), relu = node.relu()](const KernelContext& context) {
    depthwise::Forward(shape, context.input<float>(0), context.input<float>(1),
                       bias ? context.input<float>(2) : nullptr, relu, context.output<float>(0));
    return absl::OkStatus();
  }};
}

MadeKernel MakeDepthwiseBackwardData(const ConvolutionNode& node) {
  return Kernel{[shape = node.shape](const KernelContext& context) {
    depthwise::BackpropInput(shape, context.input<float>(1), context.input<float>(2), context.output<float>(0));
    return absl::OkStatus();
  }};
}

MadeKernel MakeDepthwiseBackwardWeights(const ConvolutionNode& node) {
  return WithBiasGradient(
      node.spec, Kernel{[shape = node.shape](const KernelContext& context) {
                          depthwise::BackpropFilter(shape, context.input<float>(0), context.input<float>(2),
                                                    context.output<float>(0), static_cast<float*>(context.workspace));
                          return absl::OkStatus();
                        },
                        static_cast<size_t>(depthwise::FilterWorkspace(node.shape)) * sizeof(float)});
}

}  // namespace

const ConvolutionEngine kDepthwiseForward = {"depthwise", &DepthwiseServes, &MakeDepthwiseForward};
const ConvolutionEngine kDepthwiseBackwardData = {"depthwise", &DepthwiseServesData, &MakeDepthwiseBackwardData,
                                                  /*fuses=*/false};
const ConvolutionEngine kDepthwiseBackwardWeights = {"depthwise", &DepthwiseServesWeights,
                                                     &MakeDepthwiseBackwardWeights};

}  // namespace belfry::ops
