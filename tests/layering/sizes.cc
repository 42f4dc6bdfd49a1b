#include "tests/layering/sizes.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace belfry::layering {
namespace {

size_t Indentation(absl::string_view line) { return line.size() - absl::StripLeadingAsciiWhitespace(line).size(); }

bool StartsWithWord(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](absl::string_view word) {
    return absl::StartsWith(text, word) &&
           (text.size() == word.size() || !(absl::ascii_isalnum(text[word.size()]) || text[word.size()] == '_'));
  });
}

// The text without comment, template arguments and initializers.
std::string Declaration(absl::string_view text) {
  std::string declaration;
  int depth = 0;  // of brackets
  bool initializer = false;
  for (size_t i = 0; i < text.size() && !absl::StartsWith(text.substr(i), "//"); ++i) {
    const char c = text[i];
    initializer = c == '=' || c == '{' || (initializer && (depth > 0 || c != ','));
    if (c == '>' || c == '}') --depth;
    if (depth == 0 && !initializer) declaration += c;
    if (c == '<' || c == '{') ++depth;
  }
  return declaration;
}

// Those that a line of a class declares: "int a, b = 1;  // both".
size_t DataMembers(absl::string_view line) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::StrContains(text, ';') ||
      StartsWithWord(text, {"//", "using", "static", "friend", "enum", "struct", "class", "return", "template",
                            "explicit", "virtual", "}"})) {
    return 0;
  }
  const std::string declaration = Declaration(text);
  // The first parenthesis of data is that of an attribute, of a function that of its parameters.
  const std::string before = declaration.substr(0, declaration.find('('));
  if (before != declaration && !absl::EndsWith(before, "_BY") && !absl::EndsWith(before, "_BEFORE")) return 0;
  return 1 + static_cast<size_t>(std::count(declaration.begin(), declaration.end(), ','));
}

}  // namespace

std::vector<Size> FindLarge(absl::string_view source, size_t max_lines, size_t max_members) {
  const std::vector<absl::string_view> lines = absl::StrSplit(source, '\n');
  std::vector<Size> large;
  for (size_t end = 0; end < lines.size(); ++end) {
    const size_t indentation = Indentation(lines[end]);
    if (!absl::StartsWith(lines[end].substr(indentation), "}")) continue;
    // The line above that is not further in, but for labels and directives, begins what ends here.
    size_t begin = end;
    const auto inside = [&](absl::string_view line) {
      const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
      return text.empty() || Indentation(line) > indentation ||
             StartsWithWord(text, {"public", "protected", "private", "#if", "#else", "#elif", "#endif"});
    };
    while (begin > 0 && inside(lines[--begin])) {
    }
    const absl::string_view head = absl::StripLeadingAsciiWhitespace(lines[begin]);
    if (StartsWithWord(head, {"class", "struct", "template"}) && !absl::StrContains(head, '(')) {
      size_t members = 0;
      for (size_t i = begin + 1; i < end; ++i) {
        if (Indentation(lines[i]) == indentation + 2) members += DataMembers(lines[i]);
      }
      if (members > max_members) large.push_back({begin + 1, std::string(head), members, true});
    } else if (absl::StrContains(head, '(') && end - begin > max_lines &&
               !StartsWithWord(head, {"for", "if", "while", "switch", "else", "do", "namespace", "}"})) {
      large.push_back({begin + 1, std::string(head), end - begin, false});
    }
  }
  return large;
}

}  // namespace belfry::layering
