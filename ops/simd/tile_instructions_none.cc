#include "ops/simd/tile_instructions_impl.h"

namespace belfry::ops::simd::tile_instructions {

bool Allowed() { return false; }
void Start() {}
void End() {}
void Multiply(const TileBlock& /*block*/) {}
void Round(const float* /*low*/, const float* /*high*/, const float* /*added*/, BFloat16* /*to*/) {}

}  // namespace belfry::ops::simd::tile_instructions
