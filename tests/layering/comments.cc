#include "tests/layering/comments.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/layering/literals.h"

namespace belfry::layering {
namespace {

// Products, methods, instructions, and functions of other projects that comments compare ours with.
constexpr absl::string_view kOfOthers[] = {"DeVries",       "DeepLearningExamples",
                                           "EfficientNet",  "EnsureSpecification",
                                           "F16C",          "FlashAttention",
                                           "GoogleTest",    "ImageNet",
                                           "IndexedSlices", "InfiniBand",
                                           "MurmurHash3",   "NeoX",
                                           "OpenAI",        "ReLU6",
                                           "ResNet",        "RoBERTa",
                                           "RoFormer",      "ThreadSanitizer"};
// Made up in a comment's example.
constexpr absl::string_view kInExamples[] = {"AddRowToMatrix", "FuseMine", "MakeAdd", "MakeStatusOr"};

// Calls visit(offset, text, is_comment) for each piece of a source, comments and the rest.
template <class Visit>
void ForPieces(absl::string_view source, const Visit& visit) {
  size_t begin = 0, at = 0;
  const auto comment = [&](size_t end) {
    visit(begin, source.substr(begin, at - begin), false);
    visit(at, source.substr(at, end - at), true);
    begin = at = end;
  };
  while (at < source.size()) {
    const absl::string_view rest = source.substr(at);
    if (absl::StartsWith(rest, "//")) {
      comment(std::min(source.find('\n', at), source.size()));
    } else if (absl::StartsWith(rest, "/*")) {
      const size_t close = source.find("*/", at + 2);
      comment(close == absl::string_view::npos ? source.size() : close + 2);
    } else if (source[at] == '"') {  // may hold "//"
      ++at;
      while (at < source.size() && source[at] != '"' && source[at] != '\n') at += source[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, source.size());
    } else {
      ++at;
    }
  }
  visit(begin, source.substr(begin), false);
}

// Calls visit(offset, word) for each identifier of a text.
template <class Visit>
void ForWords(absl::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    if (end > at) visit(at, text.substr(at, end - at));
    at = end + 1;
  }
}

// Capitals with small letters or digits after the first one and between: "CommentName", but neither "Comment" nor
// "CPU".
bool IsCamelCase(absl::string_view word) {
  if (word.size() < 3 || !absl::ascii_isupper(word[0]) || absl::ascii_isupper(word[1])) return false;
  return std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isalnum(c); }) &&
         std::any_of(word.begin() + 2, word.end(), [](char c) { return absl::ascii_isupper(c); });
}

// True within an address, "https://x.org/..." or "x.org/...".
bool IsInAddress(absl::string_view text, size_t at) {
  const size_t space = text.substr(0, at).find_last_of(" \n");
  const absl::string_view before = text.substr(0, at).substr(space == absl::string_view::npos ? 0 : space);
  return absl::StrContains(before, '.') && absl::StrContains(before, '/');
}

bool IsKnown(const std::string& name, const std::set<std::string>& code_names) {
  const auto is_in = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  return code_names.count(name) > 0 || code_names.count(absl::StrCat(name, "Error")) > 0 || is_in(kOfOthers) ||
         is_in(kInExamples);
}

}  // namespace

void AddCodeNames(absl::string_view source, std::set<std::string>& names) {
  ForPieces(source, [&](size_t, absl::string_view text, bool is_comment) {
    if (is_comment) return;
    ForWords(text, [&](size_t, absl::string_view word) { names.emplace(word); });
  });
}

std::vector<CommentName> FindUnknownNames(absl::string_view source, const std::set<std::string>& code_names) {
  std::vector<CommentName> unknown;
  ForPieces(source, [&](size_t offset, absl::string_view text, bool is_comment) {
    if (!is_comment) return;
    ForWords(text, [&](size_t at, absl::string_view word) {
      if (!IsCamelCase(word) || IsInAddress(text, at)) return;
      const std::string name(word), singular(word.substr(0, word.size() - (word.back() == 's' ? 1 : 0)));
      if (IsKnown(name, code_names) || IsKnown(singular, code_names)) return;
      const auto begin = source.begin();
      const auto line = 1 + std::count(begin, begin + static_cast<std::ptrdiff_t>(offset + at), '\n');
      unknown.push_back({static_cast<size_t>(line), name});
    });
  });
  return unknown;
}

}  // namespace belfry::layering
