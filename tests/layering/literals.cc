#include "tests/layering/literals.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace belfry::layering {
namespace {

// Where the literal that begins with the quote at `begin` ends: after its closing quote, or at the end of the line.
size_t EndOfLiteral(absl::string_view source, size_t begin) {
  size_t at = begin + 1;
  while (at < source.size() && source[at] != source[begin] && source[at] != '\n') at += source[at] == '\\' ? 2 : 1;
  return std::min(at + 1, source.size());
}

size_t EndOfRawString(absl::string_view source, size_t quote) {
  const size_t open = source.find('(', quote);
  if (open == absl::string_view::npos) return source.size();
  const std::string close = absl::StrCat(")", source.substr(quote + 1, open - quote - 1), "\"");
  const size_t end = source.find(close, open);
  return end == absl::string_view::npos ? source.size() : end + close.size();
}

// True if `before` ends with "name =".
bool EndsWithName(absl::string_view before) {
  before = absl::StripTrailingAsciiWhitespace(before);
  if (!absl::ConsumeSuffix(&before, "=")) return false;
  before = absl::StripTrailingAsciiWhitespace(before);
  return absl::ConsumeSuffix(&before, "name") && (before.empty() || !IsWordCharacter(before.back()));
}

// Two capitals in a row begin an abbreviation, such as "CPU".
bool IsCapitalisedWord(absl::string_view text) {
  return text.size() > 1 && absl::ascii_isupper(text[0]) && !absl::ascii_isupper(text[1]) &&
         std::all_of(text.begin(), text.end(), IsWordCharacter);
}

}  // namespace

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

std::vector<Literal> FindLiterals(absl::string_view source) {
  std::vector<Literal> literals;
  size_t line = 1;
  for (size_t at = 0; at < source.size();) {
    size_t end = at + 1;
    if (absl::StartsWith(source.substr(at), "//")) {
      end = std::min(source.find('\n', at), source.size());
    } else if (absl::StartsWith(source.substr(at), "/*")) {
      end = std::min(source.find("*/", at + 2), source.size() - 2) + 2;
    } else if (source[at] == '"' && at > 0 && source[at - 1] == 'R') {
      end = EndOfRawString(source, at);
    } else if (source[at] == '"') {
      end = EndOfLiteral(source, at);
      literals.push_back({line, std::string(source.substr(at + 1, end - at - 2)), EndsWithName(source.substr(0, at))});
    } else if (source[at] == '\'' && at > 0 && !absl::ascii_isxdigit(source[at - 1])) {  // not 64'000
      end = EndOfLiteral(source, at);
    }
    line += static_cast<size_t>(std::count(source.begin() + at, source.begin() + end, '\n'));
    at = end;
  }
  return literals;
}

void AddOpNames(absl::string_view source, std::set<std::string>& names) {
  for (const Literal& literal : FindLiterals(source)) {
    const bool name = literal.named && !literal.text.empty() && absl::ascii_isupper(literal.text[0]);
    if (!name && !IsCapitalisedWord(literal.text)) continue;
    names.insert(literal.text);
    names.insert(literal.text + "Grad");
  }
}

}  // namespace belfry::layering
