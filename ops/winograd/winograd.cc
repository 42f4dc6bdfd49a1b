#include "ops/winograd/winograd.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "ops/winograd/correlate.h"

namespace belfry::ops::winograd {
namespace {

// Of a thread's tiles in the transformed domain; they should stay in the second cache, beside the filter that passes
// by.
constexpr int64_t kBlockBytes = int64_t{256} << 10;
// Enough for the filter, or its gradient, to be fetched seldom. Multiples of the rows of a block of products.
constexpr int64_t kMinBlock = 12, kMinGradientBlock = 36, kMaxBlock = 96;

Problem MakeProblem(const onednn::Conv2DShape& s, Pass pass, int threads, int64_t block) {
  const Images x{s.n, s.h, s.w, s.c}, y{s.n, s.out_h(), s.out_w(), s.k};
  if (pass == Pass::kBackwardData) return {y, x, s.r - 1 - s.pad_top, s.s - 1 - s.pad_left, threads, block};
  return {x, y, s.pad_top, s.pad_left, threads, block};
}

// The filter [r, s, k, c] that turns dy into dx: taps reversed, channels exchanged.
void ReverseFilter(const onednn::Conv2DShape& s, const float* from, float* to) {
  const int64_t taps = s.r * s.s;
  ParallelFor(taps, static_cast<double>(s.c * s.k), [&](int64_t begin, int64_t end) {
    for (int64_t tap = begin; tap < end; ++tap) {
      const float* const source = from + (taps - 1 - tap) * s.c * s.k;
      float* const target = to + tap * s.c * s.k;
      for (int64_t k = 0; k < s.k; ++k) {
        for (int64_t c = 0; c < s.c; ++c) target[k * s.c + c] = source[c * s.k + k];
      }
    }
  });
}

// Cycles of one core per vector of output channels, as measured with AVX-512 on Zen 4 for the layers of CIFAR-10's
// networks: a product of vectors takes one, and a tile's ways into and out of the transformed domain some kWay per
// point.
double Cost(const Problem& p, int64_t r) {
  constexpr double kWay = 20;
  const auto points = static_cast<double>((kTile + r - 1) * (kTile + r - 1));
  const auto vectors = static_cast<double>(p.out.vectors());
  const double ways = kWay * points * (static_cast<double>(p.in.vectors()) + vectors);
  return static_cast<double>(p.tiles()) * (points * static_cast<double>(p.in.c) * vectors + ways);
}
// oneDNN's. Its gradient of the weights leaves most lanes empty when there are few channels.
double DirectCost(const Problem& p, int64_t r, Pass pass) {
  const double slow = pass == Pass::kBackwardWeights && p.in.c < kLanes ? 2.5 : 1.3;
  return slow * static_cast<double>(p.out.n * p.out.h * p.out.w * r * r * p.in.c * p.out.vectors());
}

template <class F>
auto ForFilter(int64_t r, F&& f) {
  return r == 3 ? f.template operator()<3>() : f.template operator()<5>();
}

}  // namespace

bool Computes(const onednn::Conv2DShape& s, Pass pass) {
  if (kLanes < 8 || s.dtype != DType::kFloat32 || s.groups != 1) return false;
  if (s.r != s.s || (s.r != 3 && s.r != 5)) return false;
  if (std::max({s.stride_h, s.stride_w, s.dilation_h, s.dilation_w}) > 1) return false;
  const Problem p = MakeProblem(s, pass, 1, 1);
  return p.out.c % kLanes == 0 && p.pad_top >= 0 && p.pad_left >= 0;
}

bool IsBest(const onednn::Conv2DShape& s, Pass pass) {
  if (!Computes(s, pass)) return false;
  const Problem p = MakeProblem(s, pass, 1, 1);
  return Cost(p, s.r) < DirectCost(p, s.r, pass);
}

Convolution::Convolution(const onednn::Conv2DShape& shape, Pass pass) : shape_(shape), threads_(ParallelThreads()) {
  BELFRY_CHECK(Computes(shape, pass));
  const int64_t n = kTile + shape.r - 1;
  const int64_t tile_bytes = n * n * (RoundUp(shape.c, kLanes) + RoundUp(shape.k, kLanes)) * int64_t{sizeof(float)};
  const int64_t least = pass == Pass::kBackwardWeights ? kMinGradientBlock : kMinBlock;
  block_ = std::clamp(kBlockBytes / tile_bytes / kMinBlock * kMinBlock, least, kMaxBlock);
  const Problem p = MakeProblem(shape, pass, threads_, block_);
  workspace_floats_ = ForFilter(shape.r, [&]<int r>() {
    return pass == Pass::kBackwardWeights ? FilterGradient<r>::WorkspaceFloats(p) : Correlation<r>::WorkspaceFloats(p);
  });
  if (pass == Pass::kBackwardData) workspace_floats_ += shape.r * shape.s * shape.c * shape.k;
}

void Convolution::Forward(const float* x, const float* weights, const float* bias, bool relu, float* y,
                          void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kForward, threads_, block_);
  ForFilter(shape_.r,
            [&]<int r>() { Correlation<r>::Run(p, x, weights, bias, relu, y, static_cast<float*>(workspace)); });
}

void Convolution::BackwardData(const float* dy, const float* weights, float* dx, void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kBackwardData, threads_, block_);
  ForFilter(shape_.r, [&]<int r>() {
    float* const rest = static_cast<float*>(workspace);
    float* const reversed = rest + Correlation<r>::WorkspaceFloats(p);
    ReverseFilter(shape_, weights, reversed);
    Correlation<r>::Run(p, dy, reversed, nullptr, false, dx, rest);
  });
}

void Convolution::BackwardWeights(const float* x, const float* dy, float* dweights, float* dbias,
                                  void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kBackwardWeights, threads_, block_);
  ForFilter(shape_.r,
            [&]<int r>() { FilterGradient<r>::Run(p, x, dy, dweights, dbias, static_cast<float*>(workspace)); });
}

}  // namespace belfry::ops::winograd
