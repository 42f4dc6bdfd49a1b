// Characters in UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace belfry::io {

// A code point and its length in bytes. Length 0: there is no valid character.
struct Utf8Character {
  uint32_t code = 0;
  size_t size = 0;
};

// The character at the beginning of `text`. Size 0 if the text is empty, is cut off within the character, or does not
// begin with one: overlong forms, surrogates and code points above U+10FFFF are not valid.
Utf8Character FirstUtf8(absl::string_view text);

// REQUIRES: `code` is a code point that FirstUtf8 may return.
void AppendUtf8(uint32_t code, std::string& text);

}  // namespace belfry::io
