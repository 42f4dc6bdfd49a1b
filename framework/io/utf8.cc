#include "framework/io/utf8.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belfry::io {
namespace {

// Private characters, one for each byte that is not ASCII, from which it is found by subtraction.
constexpr uint32_t kEscapes = 0xEF00;
bool IsEscape(uint32_t code) { return kEscapes + 0x80 <= code && code <= kEscapes + 0xFF; }

}  // namespace

Utf8Character FirstUtf8(absl::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return {};
  uint32_t code = first & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = 0xD800 <= code && code <= 0xDFFF;
  if (code < kLeast[size] || surrogate || code > 0x10FFFF) return {};
  return {code, size};
}

void AppendUtf8(uint32_t code, std::string& text) {
  const auto follow = [&](int shift) { text.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F))); };
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.push_back(static_cast<char>(0xC0 | code >> 6));
    follow(0);
  } else if (code < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | code >> 12));
    follow(6);
    follow(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | code >> 18));
    follow(12);
    follow(6);
    follow(0);
  }
}

std::string EscapeBytes(absl::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [code, size] = FirstUtf8(bytes);
    const bool kept = size > 0 && !IsEscape(code);
    AppendUtf8(kept ? code : kEscapes + static_cast<unsigned char>(bytes[0]), text);
    bytes.remove_prefix(kept ? size : 1);
  }
  return text;
}

std::string UnescapeBytes(absl::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const auto [code, size] = FirstUtf8(text);
    const size_t taken = std::max<size_t>(size, 1);
    if (IsEscape(code)) {
      bytes.push_back(static_cast<char>(code - kEscapes));
    } else {
      absl::StrAppend(&bytes, text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
  return bytes;
}

std::string Printable(absl::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [code, size] = FirstUtf8(bytes);
    const bool control = code < 0x20 || (0x7F <= code && code < 0xA0);
    const bool shown = size > 0 && (!control || code == '\n' || code == '\t');
    const size_t taken = shown ? size : 1;
    if (shown) {
      absl::StrAppend(&text, bytes.substr(0, taken));
    } else {
      absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(bytes[0]));
    }
    bytes.remove_prefix(taken);
  }
  return text;
}

}  // namespace belfry::io
