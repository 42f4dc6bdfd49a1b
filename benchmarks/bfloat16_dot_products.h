// A loop of the processor's instructions for dot products of bfloat16. CMake chooses its source by the architecture.
#pragma once

namespace belfry::benchmarks {

// True if this processor has them (AVX512_BF16).
bool HasBFloat16DotProducts();

// kBFloat16DotProductFlops operations without dependences that wait; the result depends on all of them. REQUIRES:
// HasBFloat16DotProducts().
float BFloat16DotProducts(float start);
inline constexpr double kBFloat16DotProductFlops = 12 * 100'000 * 64.0;

}  // namespace belfry::benchmarks
