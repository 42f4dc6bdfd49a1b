// A loop of bfloat16 dot-product instructions. CMake chooses its source by the architecture.
#pragma once

namespace belfry::benchmarks {

// True if this processor has them (AVX512_BF16).
bool HasBFloat16DotProducts();

// Performs kBFloat16DotProductFlops floating-point operations in independent chains, and returns a value that depends
// on all of them. Thread-safe. REQUIRES: HasBFloat16DotProducts().
float BFloat16DotProducts(float start);
inline constexpr double kBFloat16DotProductFlops = 12 * 100'000 * 64.0;

}  // namespace belfry::benchmarks
