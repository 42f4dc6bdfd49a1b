#include "ops/convolution/conv2d_direct_impl.h"

#include <algorithm>

#include "ops/convolution/direct_impl.h"
#include "ops/convolution/pointwise_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

// Channels from which products are faster than oneDNN's kernels. Those, measured with AVX2, are as fast for filters of
// 1 x 1 with few channels on one side.
constexpr int64_t kManyChannels = 16, kManyPointwiseChannels = 128;
// Outputs of an image up to which Winograd's algorithm is slower, since most of a tile is outside of it.
constexpr int64_t kFewOutputs = 4, kFewOutputsOfGradient = 9;

using onednn::Conv2DShape;
using winograd::Pass;

bool Serves(const Conv2DShape& s) {
  return s.dtype == DType::kFloat32 && s.groups == 1 && !onednn::ProductsRepeat(s.dtype) &&
         std::min(s.c, s.k) >= kManyChannels;
}
bool ServesForward(const Conv2DShape& s) { return Serves(s) && s.k % simd::Vector<float>::kLanes == 0; }
bool ServesBackpropFilter(const Conv2DShape& s) {
  const bool pointwise = s.r * s.s == 1 && std::max(s.stride_h, s.stride_w) == 1;
  return Serves(s) && (!pointwise || std::min(s.c, s.k) >= kManyPointwiseChannels);
}

}  // namespace

bool IsDirect(const Conv2DShape& s, Pass pass) {
  const bool by_winograd = winograd::IsBest(s, pass);
  const int64_t outputs = s.out_h() * s.out_w();
  switch (pass) {
    case Pass::kForward: return ServesForward(s) && !ForwardIsProduct(s) && (outputs <= kFewOutputs || !by_winograd);
    case Pass::kBackwardData: return false;
    case Pass::kBackwardWeights: return ServesBackpropFilter(s) && (outputs <= kFewOutputsOfGradient || !by_winograd);
  }
  return false;
}

std::optional<Kernel> MakeDirectForward(const KernelSpec& spec, const Conv2DShape& shape, bool relu) {
  if (!HasElements(spec) || !ServesForward(shape)) return std::nullopt;
  const DirectForward convolution(shape);
  const auto pack = [&](const void* filter, void* packed) {
    convolution.Pack(static_cast<const float*>(filter), static_cast<float*>(packed));
    return true;
  };
  const auto filter_bytes = static_cast<size_t>(convolution.filter_floats()) * sizeof(float);
  const auto* const ready = static_cast<const float*>(spec.Prepared(1, filter_bytes, pack));
  const bool bias = spec.inputs.size() > 2;
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

std::optional<Kernel> MakeDirectBackpropFilter(const KernelSpec& spec, const Conv2DShape& shape) {
  if (!HasElements(spec) || !ServesBackpropFilter(shape)) return std::nullopt;
  const DirectFilterGradient gradient(shape);
  return Kernel{[gradient](const KernelContext& context) {
                  gradient.Run(context.input<float>(0), context.input<float>(2), context.output<float>(0),
                               static_cast<float*>(context.workspace));
                  return absl::OkStatus();
                },
                static_cast<size_t>(gradient.workspace_floats()) * sizeof(float)};
}

}  // namespace belfry::ops
