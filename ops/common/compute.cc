#include <Eigen/Core>
#include <bit>

#include "ops/common/compute_impl.h"

namespace belfry::ops {
namespace {

template <class From, class To>
void Convert(const From* x, To* y, int64_t n) {
  Eigen::Map<Eigen::ArrayX<To>>(y, n) = Eigen::Map<const Eigen::ArrayX<From>>(x, n).template cast<To>();
}

}  // namespace

void ToFloat(const Half* x, float* y, int64_t n) { Convert(x, y, n); }
void ToFloat(const BFloat16* x, float* y, int64_t n) {
  const auto* bits = reinterpret_cast<const uint16_t*>(x);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
}
void FromFloat(const float* x, Half* y, int64_t n) { Convert(x, y, n); }
// Rounds to nearest, ties to even; NaN stays NaN.
void FromFloat(const float* x, BFloat16* y, int64_t n) {
  auto* bits = reinterpret_cast<uint16_t*>(y);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto all = std::bit_cast<uint32_t>(x[i]);
    const uint32_t high = all >> 16, rounded = (all + 0x7fff + (high & 1)) >> 16;
    bits[i] = static_cast<uint16_t>(x[i] == x[i] ? rounded : high | 0x40);
  }
}

}  // namespace belfry::ops
