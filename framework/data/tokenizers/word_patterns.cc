#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "framework/data/tokenizers/character_classes_impl.h"
#include "framework/data/tokenizers/word_patterns_impl.h"
#include "framework/io/utf8.h"

namespace belfry::data {
namespace {

using Class = CharacterClass;

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // 0: the end of the text
  Class kind = Class::kOther;
};

Character At(absl::string_view text, size_t at) {
  if (at >= text.size()) return {};
  if (const auto c = static_cast<unsigned char>(text[at]); c < 0x80) {
    const Class kind = absl::ascii_isalpha(c)   ? Class::kLetter
                       : absl::ascii_isdigit(c) ? Class::kNumber
                       : absl::ascii_isspace(c) ? Class::kSpace
                                                : Class::kOther;
    return {c, 1, kind};
  }
  const auto [code, size] = io::FirstUtf8(text.substr(at));
  if (size == 0) return {0xFFFD, 1, Class::kOther};
  return {code, size, ClassOf(code)};
}

bool IsNewline(const Character& c) { return c.code == '\n' || c.code == '\r'; }

// The end of up to `most` characters of a class, from `at` on.
size_t RunEnd(absl::string_view text, size_t at, Class kind, size_t most = SIZE_MAX) {
  for (; most > 0; --most) {
    const Character c = At(text, at);
    if (c.size == 0 || c.kind != kind) break;
    at += c.size;
  }
  return at;
}

// The end of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of the text; 0 if it has none. Without regard to case,
// the long s (U+017F) is an s.
size_t ContractionEnd(absl::string_view text, bool any_case) {
  if (text[0] != '\'') return 0;
  if (any_case && text.substr(1, 2) == "\xC5\xBF") return 3;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    return any_case && 'A' <= text[i] && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? 3 : 0;
    case 'l': return letter(2) == 'l' ? 3 : 0;
    default: return 0;
  }
}

// The end of white space: \s+(?!\S)|\s+, which leaves the last character to the word that follows; before that, with
// `newlines`, \s*[\r\n]+.
size_t SpaceEnd(absl::string_view text, bool newlines) {
  size_t end = 0, before_last = 0, newline_end = 0;
  for (Character c = At(text, 0); c.size > 0 && c.kind == Class::kSpace; c = At(text, end)) {
    before_last = end;
    end += c.size;
    if (IsNewline(c)) newline_end = end;
  }
  if (newlines && newline_end > 0) return newline_end;
  return end == text.size() || before_last == 0 ? end : before_last;
}

size_t FirstGpt2Word(absl::string_view text) {
  if (const size_t end = ContractionEnd(text, /*any_case=*/false); end > 0) return end;
  const size_t begin = text[0] == ' ' ? 1 : 0;
  const Character c = At(text, begin);
  if (c.size > 0 && c.kind != Class::kSpace) return RunEnd(text, begin, c.kind);
  return SpaceEnd(text, /*newlines=*/false);
}

size_t FirstLlama3Word(absl::string_view text, size_t digits) {
  if (const size_t end = ContractionEnd(text, /*any_case=*/true); end > 0) return end;
  const Character first = At(text, 0);
  if (first.kind == Class::kLetter) return RunEnd(text, 0, Class::kLetter);
  if (first.kind == Class::kNumber) return RunEnd(text, 0, Class::kNumber, digits);
  if (!IsNewline(first) && At(text, first.size).kind == Class::kLetter) return RunEnd(text, first.size, Class::kLetter);
  const size_t begin = text[0] == ' ' ? 1 : 0;
  size_t end = RunEnd(text, begin, Class::kOther);
  if (end == begin) return SpaceEnd(text, /*newlines=*/true);
  while (IsNewline(At(text, end))) ++end;
  return end;
}

}  // namespace

size_t FirstWord(WordPattern pattern, absl::string_view text) {
  switch (pattern) {
    case WordPattern::kGpt2: return FirstGpt2Word(text);
    case WordPattern::kLlama3: return FirstLlama3Word(text, 3);
    case WordPattern::kQwen2: return FirstLlama3Word(text, 1);
    case WordPattern::kNone: break;
  }
  return text.size();
}

}  // namespace belfry::data
