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

// `bytes`, such as a path, as UTF-8, from which UnescapeBytes makes them again: a byte that is in no valid character
// becomes one of the private ones U+EF80 to U+EFFF, and so do the bytes of these.
std::string EscapeBytes(absl::string_view bytes);
std::string UnescapeBytes(absl::string_view text);

// `bytes` for a terminal: control characters other than a line's end and a tab, U+0080 to U+009F among them, which it
// would obey, and bytes in no valid character, are shown as \x07.
std::string Printable(absl::string_view bytes);

}  // namespace belfry::io
