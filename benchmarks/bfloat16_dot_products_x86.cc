#include <immintrin.h>

#include <cstdint>

#include "benchmarks/bfloat16_dot_products.h"

namespace belfry::benchmarks {

bool HasBFloat16DotProducts() { return __builtin_cpu_supports("avx512bf16") != 0; }

__attribute__((target("avx512f,avx512bf16"))) float BFloat16DotProducts(float start) {
  // The chains and rounds of FmaPeak(). VDPBF16PS adds two products to each of 16 sums.
  constexpr int kChains = 12;
  constexpr int64_t kRounds = 100'000;
  static_assert(kBFloat16DotProductFlops == 4.0 * 16 * kChains * kRounds);
  const __m512 small = _mm512_set1_ps(0.001F);
  const __m512bh factors = _mm512_cvtne2ps_pbh(small, small);
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(start + static_cast<float>(i));
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm512_dpbf16_ps(chains[i], factors, factors);
  }
  for (int i = 1; i < kChains; ++i) chains[0] = _mm512_add_ps(chains[0], chains[i]);
  return _mm512_reduce_add_ps(chains[0]);
}

}  // namespace belfry::benchmarks
