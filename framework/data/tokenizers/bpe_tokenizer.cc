#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/tokenizers/bpe_tokenizer_impl.h"
#include "framework/data/tokenizers/character_classes_impl.h"
#include "framework/io/utf8.h"

namespace belfry::data {
namespace {

// Longer words, of which merges would need too much memory, are encoded in pieces.
constexpr size_t kMaxWord = size_t{1} << 20;

uint64_t PairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

bool IsSpace(uint32_t code) { return ClassOf(code) == CharacterClass::kSpace; }

// The last character of the text. Size 0 if the text is empty or does not end with one.
io::Utf8Character LastCharacter(absl::string_view text) {
  size_t begin = text.size() - (text.empty() ? 0 : 1);
  while (begin > 0 && text.size() - begin < 4 && (text[begin] & 0xC0) == 0x80) --begin;
  const io::Utf8Character last = io::FirstUtf8(text.substr(begin));
  return last.size == text.size() - begin ? last : io::Utf8Character{};
}

// The end of the text without the white space that it ends with, and the beginning after that which it begins with.
size_t EndBeforeSpace(absl::string_view text) {
  size_t end = text.size();
  while (true) {
    const auto [code, size] = LastCharacter(text.substr(0, end));
    if (size == 0 || !IsSpace(code)) return end;
    end -= size;
  }
}

size_t BeginAfterSpace(absl::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const auto [code, size] = io::FirstUtf8(text.substr(begin));
    if (size == 0 || !IsSpace(code)) break;
    begin += size;
  }
  return begin;
}

}  // namespace

// A word as a list of tokens, linked by position, and the merges that may be made in it.
struct BpeTokenizer::Scratch {
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Part {
    int32_t token = 0;  // -1: merged into the one before
    uint32_t before = 0, after = 0;
  };
  // A merge of the parts at `position` and after it. It is out of date if their tokens have become others.
  struct Candidate {
    int32_t rank = 0;
    uint32_t position = 0;
    int32_t left = 0, right = 0, token = 0;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  std::vector<Part> parts;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
};

absl::StatusOr<std::unique_ptr<const Tokenizer>> BpeTokenizer::Create(BpeModel model) {
  auto tokenizer = std::unique_ptr<BpeTokenizer>(new BpeTokenizer(std::move(model)));
  tokenizer->IndexAdded();
  RETURN_IF_ERROR(tokenizer->IndexTokens());
  RETURN_IF_ERROR(tokenizer->IndexMerges());
  tokenizer->MarkWholeTokens();
  return std::unique_ptr<const Tokenizer>(std::move(tokenizer));
}

absl::Status BpeTokenizer::IndexTokens() {
  for (size_t i = 0; i < model_.tokens.size(); ++i) {
    if (!model_.tokens[i].has_value()) continue;
    const absl::string_view bytes = *model_.tokens[i];
    const auto [at, is_new] = token_of_.emplace(bytes, static_cast<int32_t>(i));
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("tokens ", at->second, " and ", i, " are both '",
                                                     absl::Utf8SafeCHexEscape(bytes.substr(0, 80)), "'"));
    }
    longest_ = std::max(longest_, bytes.size());
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto found = token_of_.find(absl::string_view(&c, 1));
    if (found == token_of_.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("no token is the byte 0x%02x; a byte-level vocabulary has one for each byte", byte));
    }
    byte_tokens_[static_cast<size_t>(byte)] = found->second;
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::IndexMerges() {
  merges_.reserve(model_.merges.size());
  for (size_t i = 0; i < model_.merges.size(); ++i) {
    const auto [left, right] = model_.merges[i];
    const std::string made = *model_.tokens[static_cast<size_t>(left)] + *model_.tokens[static_cast<size_t>(right)];
    const auto found = token_of_.find(made);
    if (found == token_of_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "merges[", i, "]: no token is '", absl::Utf8SafeCHexEscape(made.substr(0, 80)), "', which it makes"));
    }
    // The last of two merges of one pair counts, as in `tokenizers`.
    merges_[PairOf(left, right)] = {static_cast<int32_t>(i), found->second};
  }
  return absl::OkStatus();
}

void BpeTokenizer::IndexAdded() {
  for (const AddedToken& token : model_.added) {
    added_.emplace(token.text, &token);
    added_texts_.emplace(token.token, token.text);
    added_sizes_.push_back(token.text.size());
    begins_added_[static_cast<unsigned char>(token.text[0])] = true;
  }
  std::sort(added_sizes_.begin(), added_sizes_.end(), std::greater<>());
  added_sizes_.erase(std::unique(added_sizes_.begin(), added_sizes_.end()), added_sizes_.end());
}

// Most words of a text are tokens, so looking these up saves most merges. But some tokens are not what the merges make
// of their bytes.
void BpeTokenizer::MarkWholeTokens() {
  whole_.resize(model_.tokens.size(), model_.ignore_merges);
  if (model_.ignore_merges) return;
  Scratch scratch;
  std::vector<int32_t> tokens;
  for (const auto& [bytes, token] : token_of_) {
    tokens.clear();
    MergeWord(bytes, scratch, tokens);
    whole_[static_cast<size_t>(token)] = tokens.size() == 1;
  }
}

// The longest of the added tokens that begin first.
BpeTokenizer::AddedMatch BpeTokenizer::FindAdded(absl::string_view text, size_t from) const {
  if (added_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_added_[static_cast<unsigned char>(text[at])]) continue;
    for (const size_t size : added_sizes_) {
      if (size > text.size() - at) continue;
      const auto found = added_.find(text.substr(at, size));
      if (found != added_.end()) return {at, at + size, found->second};
    }
  }
  return {};
}

std::vector<int32_t> BpeTokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> tokens;
  Scratch scratch;
  size_t at = 0;
  for (AddedMatch match = FindAdded(text, at); match.end > 0; match = FindAdded(text, at)) {
    absl::string_view before = text.substr(at, match.begin - at);
    if (match.token->takes_left) before = before.substr(0, EndBeforeSpace(before));
    EncodeWords(before, scratch, tokens);
    tokens.push_back(match.token->token);
    at = match.end;
    if (match.token->takes_right) at += BeginAfterSpace(text.substr(at));
  }
  EncodeWords(text.substr(at), scratch, tokens);
  return tokens;
}

void BpeTokenizer::EncodeWords(absl::string_view text, Scratch& scratch, std::vector<int32_t>& tokens) const {
  if (text.empty()) return;
  std::string spaced;
  if (model_.add_space && text[0] != ' ') {
    spaced = absl::StrCat(" ", text);
    text = spaced;
  }
  while (!text.empty()) {
    const size_t size = std::min(FirstWord(model_.pattern, text), kMaxWord);
    EncodeWord(text.substr(0, size), scratch, tokens);
    text.remove_prefix(size);
  }
}

void BpeTokenizer::EncodeWord(absl::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const {
  if (word.size() <= longest_) {
    const auto found = token_of_.find(word);
    if (found != token_of_.end() && whole_[static_cast<size_t>(found->second)]) {
      tokens.push_back(found->second);
      return;
    }
  }
  MergeWord(word, scratch, tokens);
}

// Makes the merge of the lowest rank, the leftmost of several, until none is left: O(n log n) for n bytes.
void BpeTokenizer::MergeWord(absl::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const {
  auto& parts = scratch.parts;
  const auto size = static_cast<uint32_t>(word.size());
  parts.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    parts[i] = {byte_tokens_[static_cast<unsigned char>(word[i])], i == 0 ? Scratch::kNone : i - 1,
                i + 1 == size ? Scratch::kNone : i + 1};
  }
  const auto consider = [&](uint32_t at) {
    const int32_t left = parts[at].token, right = parts[parts[at].after].token;
    const auto found = merges_.find(PairOf(left, right));
    if (found == merges_.end()) return;
    scratch.candidates.push({found->second.rank, at, left, right, found->second.token});
  };
  for (uint32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!scratch.candidates.empty()) {
    const Scratch::Candidate best = scratch.candidates.top();
    scratch.candidates.pop();
    Scratch::Part& part = parts[best.position];
    if (part.token != best.left || part.after == Scratch::kNone || parts[part.after].token != best.right) continue;
    Scratch::Part& gone = parts[part.after];
    part.token = best.token;
    part.after = gone.after;
    gone.token = -1;
    if (part.after != Scratch::kNone) {
      parts[part.after].before = best.position;
      consider(best.position);
    }
    if (part.before != Scratch::kNone) consider(part.before);
  }
  for (const Scratch::Part& part : parts) {
    if (part.token >= 0) tokens.push_back(part.token);
  }
}

std::string BpeTokenizer::Decode(absl::Span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) continue;
    if (const auto& bytes = model_.tokens[static_cast<size_t>(token)]; bytes.has_value()) {
      text += *bytes;
    } else if (const auto added = added_texts_.find(token); added != added_texts_.end()) {
      absl::StrAppend(&text, added->second);
    }
  }
  return text;
}

std::optional<int32_t> BpeTokenizer::Find(absl::string_view text) const {
  if (const auto added = added_.find(text); added != added_.end()) return added->second->token;
  const auto found = token_of_.find(text);
  return found == token_of_.end() ? std::nullopt : std::optional(found->second);
}

// All patterns end a word between a letter or a number and white space, and look no further ahead than to that. A space
// would be put before what begins with other white space, so cuts are made before spaces.
size_t BpeTokenizer::CutPoint(absl::string_view text) const {
  if (model_.pattern == WordPattern::kNone) return 0;
  for (size_t at = text.size(); at-- > 1;) {
    const bool space = text[at] == ' ' || (text[at] == '\n' && !model_.add_space);
    if (!space) continue;
    const auto [code, size] = LastCharacter(text.substr(0, at));
    const CharacterClass before = ClassOf(code);
    const bool word = before == CharacterClass::kLetter || before == CharacterClass::kNumber;
    if (size > 0 && word && !CutsAdded(text, at)) return at;
  }
  return 0;
}

// True if an added token may lie on both sides of the cut.
bool BpeTokenizer::CutsAdded(absl::string_view text, size_t at) const {
  return std::any_of(model_.added.begin(), model_.added.end(), [&](const AddedToken& added) {
    const absl::string_view token = added.text;
    if (added.takes_right && at >= token.size() && absl::EndsWith(text.substr(0, at), token)) return true;
    for (size_t before = 1; before < token.size() && before <= at; ++before) {
      const absl::string_view left = token.substr(0, before), right = token.substr(before);
      if (text.substr(at - before, before) != left) continue;
      const absl::string_view follows = text.substr(at, right.size());
      if (absl::StartsWith(right, follows)) return true;
    }
    return false;
  });
}

}  // namespace belfry::data
