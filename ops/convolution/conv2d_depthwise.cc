#include "ops/convolution/conv2d_depthwise_impl.h"

#include <numeric>

#include "ops/convolution/depthwise_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

using onednn::Conv2DShape;

// Elements of a batch of images from which memory bounds a convolution. All limits here are measured with AVX2.
constexpr int64_t kLargeBatch = 1 << 20;
// Up to so many channels, oneDNN's passes over large images are as fast.
constexpr int64_t kFewChannels = 64;

bool ServesDepthwise(const Conv2DShape& s) {
  return s.dtype == DType::kFloat32 && s.groups == s.c && s.groups == s.k && s.c % simd::Vector<float>::kLanes == 0 &&
         !onednn::ProductsRepeat(s.dtype);
}
bool IsThreeByThree(const Conv2DShape& s) { return s.r == 3 && s.s == 3; }
bool IsLarge(const Conv2DShape& s, int64_t times = 1) { return s.n * s.h * s.w * s.c >= times * kLargeBatch; }
// Columns that do not share sets of the L1 cache.
int64_t ColumnsApart(const Conv2DShape& s) {
  constexpr int64_t kWayFloats = 1024;
  return kWayFloats / std::gcd(s.c, kWayFloats);
}

}  // namespace

std::optional<Kernel> MakeDepthwiseForward(const KernelSpec& spec, const Conv2DShape& shape, bool relu) {
  if (!HasElements(spec) || !ServesDepthwise(shape) || !IsThreeByThree(shape) || shape.c <= kFewChannels ||
      ColumnsApart(shape) < 8 || !IsLarge(shape, depthwise::Slides(shape) ? 1 : 2)) {
    return std::nullopt;
  }
  const bool bias = spec.inputs.size() > 2;
  return Kernel{[shape, bias, relu](const KernelContext& context) {
    depthwise::Forward(shape, context.input<float>(0), context.input<float>(1),
                       bias ? context.input<float>(2) : nullptr, relu, context.output<float>(0));
    return absl::OkStatus();
  }};
}

std::optional<Kernel> MakeDepthwiseBackpropInput(const KernelSpec& spec, const Conv2DShape& shape) {
  if (!HasElements(spec) || !ServesDepthwise(shape) || !depthwise::Slides(shape) || ColumnsApart(shape) < 4 ||
      (shape.c <= kFewChannels && IsLarge(shape))) {
    return std::nullopt;
  }
  return Kernel{[shape](const KernelContext& context) {
    depthwise::BackpropInput(shape, context.input<float>(1), context.input<float>(2), context.output<float>(0));
    return absl::OkStatus();
  }};
}

// With AVX2, oneDNN 2.6 computes gradients of other filters than 3 x 3 one group after the other.
std::optional<Kernel> MakeDepthwiseBackpropFilter(const KernelSpec& spec, const Conv2DShape& shape) {
  if (!HasElements(spec) || !ServesDepthwise(shape)) return std::nullopt;
  const bool fast = !IsThreeByThree(shape) || (depthwise::Slides(shape) ? ColumnsApart(shape) > 1 : IsLarge(shape, 2));
  if (!fast) return std::nullopt;
  return Kernel{[shape](const KernelContext& context) {
                  depthwise::BackpropFilter(shape, context.input<float>(0), context.input<float>(2),
                                            context.output<float>(0), static_cast<float*>(context.workspace));
                  return absl::OkStatus();
                },
                static_cast<size_t>(depthwise::FilterWorkspace(shape)) * sizeof(float)};
}

}  // namespace belfry::ops
