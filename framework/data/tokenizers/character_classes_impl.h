// Classes of characters, as the patterns of tokenizers tell them apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace belfry::data {

// Unicode's general categories L and N, and its property White_Space.
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// The beginnings of runs of code points of one class, in ascending order: 4 * first code point + class
// (character_classes.cc).
extern const uint32_t kClassStarts[];
extern const size_t kClassStartCount;

inline CharacterClass ClassOf(uint32_t code) {
  const uint32_t* const after = std::upper_bound(kClassStarts, kClassStarts + kClassStartCount, code << 2 | 3);
  return static_cast<CharacterClass>(after[-1] & 3);
}

}  // namespace belfry::data
