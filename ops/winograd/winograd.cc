#include "ops/winograd/winograd_impl.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "ops/onednn/primitive.h"
#include "ops/winograd/correlate_impl.h"

namespace belfry::ops::winograd {
namespace {

// Size of the tiles that one thread holds in the transformed domain: they should stay in the L2 cache while the filter
// streams past.
constexpr int64_t kBlockBytes = int64_t{256} << 10;
// Bounds on the tiles of a block. The filter, or its gradient, passes through the cache once per block, so blocks must
// be large enough to amortise it, and larger where it comes from memory; AVX-512's processors have larger L2 caches to
// read it ahead. Multiples of the rows of a block of products.
constexpr int64_t kMinBlock = 12, kMinGradientBlock = 36, kMaxBlock = 96, kLargeFilterBlock = kLanes < 16 ? 96 : 36;
// Size of the transformed filter from which it is large: as the usual share of a core in the last cache.
constexpr int64_t kLargeFilterBytes = int64_t{4} << 20;
// Size of the sums of a gradient from which threads share one copy of them, and each block of tiles.
constexpr int64_t kSharedSumsBytes = int64_t{1} << 20;

// Size of the sums of a gradient above which its channels are divided, and the parts. Measured on Zen 3 with AVX2, and
// on Zen 4, whose L2 cache is twice as large, with AVX-512.
constexpr int64_t kMaxSumsBytes = kLanes < 16 ? int64_t{3} << 19 : int64_t{6} << 20, kPartOfIn = 64, kPartOfOut = 128;

// The size of the transformed filter, or of the sums of its gradient, with `in` and `out` channels.
int64_t FilterBytes(const ConvolutionGeometry& s, int tile, int64_t in, int64_t out) {
  const int64_t n = tile + s.r - 1;
  return n * n * in * out * int64_t{sizeof(float)};
}

// Forward and the gradient of the filter work on (x, y). The gradient of x is the correlation of dy with the reversed
// filter, whose padding is the complement r - 1 - pad.
Problem MakeProblem(const ConvolutionGeometry& s, Pass pass, int tile, int threads, int64_t block) {
  const Images x{s.n, s.h, s.w, s.c}, y{s.n, s.out_h(), s.out_w(), s.k};
  const int taps = static_cast<int>(s.r);
  if (pass == Pass::kBackwardData)
    return {y, x, taps - 1 - s.pad_top, taps - 1 - s.pad_left, tile, taps, threads, block};
  Problem p = {x, y, s.pad_top, s.pad_left, tile, taps, threads, block};
  if (pass == Pass::kBackwardWeights && FilterBytes(s, tile, s.c, s.k) > kMaxSumsBytes) {
    p.in.c = std::min(s.c, kPartOfIn);
    p.out.c = std::min(s.k, kPartOfOut);
  }
  return p;
}

// Forward filters have a whole number of vectors, because Computes() requires out.c % kLanes == 0.
void ToFloats(const BFloat16* from, int64_t size, float* to) {
  for (int64_t i = 0; i < size; i += kLanes) Store(Load(from + i), to + i);
}
void FromFloats(const float* from, int64_t size, BFloat16* to) {
  for (int64_t i = 0; i < size; i += kLanes) Store(Load(from + i), to + i);
}

// The filter [r, s, k, c] that turns dy into dx: taps reversed, input and output channels exchanged, and c filled up
// with zeros to a whole number of vectors.
template <class T>
void ReverseFilter(const ConvolutionGeometry& s, const T* from, float* to) {
  const int64_t taps = s.r * s.s, row = RoundUp(s.c, kLanes);
  ParallelFor(taps, static_cast<double>(s.c * s.k), [&](int64_t begin, int64_t end) {
    for (int64_t tap = begin; tap < end; ++tap) {
      const T* const source = from + (taps - 1 - tap) * s.c * s.k;
      float* const target = to + tap * row * s.k;
      for (int64_t k = 0; k < s.k; ++k) {
        for (int64_t c = 0; c < s.c; ++c) target[k * row + c] = static_cast<float>(source[c * s.k + k]);
        std::fill(target + k * row + s.c, target + (k + 1) * row, 0.0f);
      }
    }
  });
}

// Estimated cycles of one core, fitted to measurements with AVX-512 on Zen 4 for layers of CIFAR-10's and ImageNet's
// networks. Compared only with DirectCost. In this unit, a multiply-add of vectors is one cycle.
double Cost(const Problem& p, const ConvolutionGeometry& s) {
  // The products, which bfloat16's conversions delay; and the transform of the filter or of its gradient, for each
  // point and vector, in a cache or in memory.
  constexpr double kFilter = 12, kLargeFilter = 36;
  const double product = s.dtype == DType::kBFloat16 ? 1.35 : 1.2;
  const auto points = static_cast<double>((p.tile + s.r - 1) * (p.tile + s.r - 1));
  const auto vectors = static_cast<double>(p.out.vectors()), both = static_cast<double>(p.in.vectors()) + vectors;
  // The transforms of a tile, for each point and vector of channels: the larger a transformed tile, the farther the
  // cache that holds the tiles of a block.
  constexpr double kWay = 10, kNear = 22e3;
  const double bytes = points * both * kLanes * sizeof(float);
  const double ways = (kWay + bytes * bytes / (kNear * kNear)) * points * both;
  const double products = points * static_cast<double>(p.in.c) * vectors;
  const bool large = FilterBytes(s, p.tile, p.in.c, p.out.c) >= kLargeFilterBytes;
  const double filter = (large ? kLargeFilter : kFilter) * products;
  // With few channels, products do not pass through memory.
  constexpr double kFewIn = 10, kFewOut = 600, kFewProduct = 1.5;
  const double few = kFewIn * points + kFewOut * vectors + kFewProduct * products;
  const double part =
      static_cast<double>(p.tiles()) * (p.in.c <= kFewChannels ? few : product * products + ways) + filter;
  return part * static_cast<double>(p.in.channels * p.out.channels) / static_cast<double>(p.in.c * p.out.c);
}

// The pairs of an output and a tap of the filter, along an axis, of which the tap is not on the padding.
int64_t Pairs(int64_t in, int64_t out, int64_t taps, int64_t pad) {
  int64_t pairs = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    pairs += std::max<int64_t>(0, std::min(out, in + pad - tap) - std::max<int64_t>(0, pad - tap));
  }
  return pairs;
}

// The same estimate for oneDNN's direct convolution. With few channels its gradient of the weights leaves most lanes
// empty. bfloat16 products take half the time where the processor supports them, and almost none with tile
// instructions; without either it is the product of float copies (WithHalfPrecision).
double DirectCost(const Problem& p, const ConvolutionGeometry& s, Pass pass) {
  double slow = kLanes < 16 ? 1.3 : 1.12;
  if (pass == Pass::kBackwardWeights) slow = p.in.channels < kLanes ? 2.5 : 1.4;
  constexpr double kCopies = 1.2;
  if (s.dtype == DType::kBFloat16) slow *= std::min(onednn::BFloat16Time(), kCopies);
  const int64_t pairs = Pairs(p.in.h, p.out.h, s.r, p.pad_top) * Pairs(p.in.w, p.out.w, s.s, p.pad_left);
  const double vectors = static_cast<double>((p.out.channels + kLanes - 1) / kLanes);
  return slow * static_cast<double>(p.out.n * pairs * p.in.channels) * vectors;
}

}  // namespace

bool Computes(const ConvolutionGeometry& s, Pass pass) {
  if (kLanes < 8 || (s.dtype != DType::kFloat32 && s.dtype != DType::kBFloat16) || s.groups != 1) return false;
  if (s.r != s.s || (s.r != 3 && s.r != 5)) return false;
  if (std::max({s.stride_h, s.stride_w, s.dilation_h, s.dilation_w}) > 1) return false;
  const Problem p = MakeProblem(s, pass, kLeastTile, 1, 1);
  const bool fits = p.out.channels % kLanes == 0 || (pass == Pass::kBackwardData && p.out.channels > kLanes);
  return fits && p.pad_top >= 0 && p.pad_left >= 0;
}

std::vector<int> TilesOf(const ConvolutionGeometry& s, Pass pass) {
  const int64_t in = pass == Pass::kBackwardData ? s.k : s.c;
  if (s.dtype != DType::kBFloat16 || in <= kFewChannels) return {kLeastTile};
  if (s.r == 5) return {kLeastTile, 6};
  return {kLeastTile, 5, 7, 8};
}

int BestTile(const ConvolutionGeometry& s, Pass pass) {
  int best = kLeastTile;
  double least = std::numeric_limits<double>::infinity();
  for (const int tile : TilesOf(s, pass)) {
    const double cost = Cost(MakeProblem(s, pass, tile, 1, 1), s);
    if (cost < least) best = tile;
    least = std::min(least, cost);
  }
  return best;
}

bool IsBest(const ConvolutionGeometry& s, Pass pass) {
  if (!Computes(s, pass)) return false;
  const Problem p = MakeProblem(s, pass, BestTile(s, pass), 1, 1);
  return Cost(p, s) < DirectCost(p, s, pass);
}

template <class T>
Convolution<T>::Convolution(const ConvolutionGeometry& shape, Pass pass, int tile)
    : shape_(shape), tile_(tile), threads_(ParallelThreads()) {
  BELFRY_CHECK(Computes(shape, pass) && shape.dtype == kDTypeOf<T>);
  const int64_t n = tile_ + shape.r - 1;
  const Problem whole = MakeProblem(shape, pass, tile_, 1, 1);
  const int64_t tile_bytes = n * n * (whole.in.vectors() + whole.out.vectors()) * kLanes * int64_t{sizeof(float)};
  const int64_t filter_bytes = FilterBytes(shape, tile_, whole.in.c, whole.out.c);
  const bool gradient = pass == Pass::kBackwardWeights;
  const int64_t least = gradient ? kMinGradientBlock : kMinBlock;
  const int64_t tiles = whole.tiles();
  // Each thread gets at least half a minimal block, so that its fixed work (for the gradient, clearing and adding its
  // sums) stays small beside its tiles.
  threads_ = static_cast<int>(std::clamp<int64_t>(2 * tiles / least, 1, threads_));
  if (gradient && filter_bytes >= kSharedSumsBytes && shape.c % kLanes == 0) threads_ = 1;
  const int64_t floor = filter_bytes >= kLargeFilterBytes ? kLargeFilterBlock : least;
  block_ = std::clamp(kBlockBytes / tile_bytes / kMinBlock * kMinBlock, floor, kMaxBlock);
  block_ = std::min(block_, (tiles + threads_ - 1) / threads_);
  const Problem p = MakeProblem(shape, pass, tile_, threads_, block_);
  if (!gradient) filter_floats_ = RoundUp(Correlation<T>::FilterFloats(p), kLanes);
  const int64_t rest = gradient ? FilterGradient<T>::WorkspaceFloats(p) : Correlation<T>::WorkspaceFloats(p);
  weights_at_ = RoundUp(filter_floats_ + rest, kLanes);
  const bool reversed = pass == Pass::kBackwardData, copied = reversed || !std::is_same_v<T, float>;
  weight_floats_ = copied ? shape.r * shape.s * (reversed ? RoundUp(shape.c, kLanes) : shape.c) * shape.k : 0;
}

template <class T>
void Convolution<T>::Forward(const T* x, const T* weights, const T* bias, bool relu, T* y, void* workspace) const {
  float* const transformed = static_cast<float*>(workspace);
  TransformWeights(weights, transformed, transformed + weights_at_);
  ForwardTransformed(x, transformed, bias, relu, y, transformed + filter_floats_);
}

template <class T>
void Convolution<T>::TransformWeights(const T* weights, float* transformed, float* floats) const {
  const Problem p = MakeProblem(shape_, Pass::kForward, tile_, threads_, block_);
  if constexpr (std::is_same_v<T, float>) {
    Correlation<T>::TransformFilter(p, weights, transformed);
  } else {
    ToFloats(weights, shape_.r * shape_.s * shape_.c * shape_.k, floats);
    Correlation<T>::TransformFilter(p, floats, transformed);
  }
}

template <class T>
void Convolution<T>::ForwardTransformed(const T* x, const float* transformed, const T* bias, bool relu, T* y,
                                        void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kForward, tile_, threads_, block_);
  const Epilogue<T> epilogue{.bias = bias, .relu = relu};
  Correlation<T>::Run(p, x, transformed, epilogue, y, static_cast<float*>(workspace));
}

// The reversed filter in the workspace is float for both dtypes, so the conversion of bfloat16 costs no extra pass.
template <class T>
void Convolution<T>::BackwardData(const T* dy, const T* weights, const T* addend, const T* mask, T* dx,
                                  void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kBackwardData, tile_, threads_, block_);
  float* const floats = static_cast<float*>(workspace);
  ReverseFilter(shape_, weights, floats + weights_at_);
  const Epilogue<T> epilogue{.addend = addend, .mask = mask};
  Correlation<T>::TransformFilter(p, floats + weights_at_, floats);
  Correlation<T>::Run(p, dy, floats, epilogue, dx, floats + filter_floats_);
}

template <class T>
void Convolution<T>::BackwardWeights(const T* x, const T* dy, T* dweights, T* dbias, void* workspace) const {
  const Problem p = MakeProblem(shape_, Pass::kBackwardWeights, tile_, threads_, block_);
  float* const floats = static_cast<float*>(workspace);
  if constexpr (std::is_same_v<T, float>) {
    FilterGradient<T>::Run(p, x, dy, dweights, dbias, floats);
  } else {
    FilterGradient<T>::Run(p, x, dy, floats + weights_at_, dbias, floats);
    FromFloats(floats + weights_at_, shape_.r * shape_.s * shape_.c * shape_.k, dweights);
  }
}

template class Convolution<float>;
template class Convolution<BFloat16>;

}  // namespace belfry::ops::winograd
