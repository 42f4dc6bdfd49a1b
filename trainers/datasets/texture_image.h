// One image of the generated data set.
#pragma once

#include <cstdint>

namespace belfry::data {

// Draws image `index` of class `label` (0 to 9, in the order of kTextureNames) into 3 planes of 32 x 32 bytes. The
// bytes depend only on the arguments, on any machine: every operation used is one that IEEE 754 rounds exactly.
void DrawTextureImage(uint64_t key, int64_t index, int label, uint8_t* planes);

}  // namespace belfry::data
