// One image of the made-up data set.
#pragma once

#include <cstdint>

namespace belfry::data {

// Draws image `index` of class `label` (0 to 9, in the order of kTextureNames) into 3 planes of 32 x 32 bytes. A
// function of its arguments alone, bit by bit: it uses only operations that IEEE 754 rounds exactly.
void DrawTextureImage(uint64_t key, int64_t index, int label, uint8_t* planes);

}  // namespace belfry::data
