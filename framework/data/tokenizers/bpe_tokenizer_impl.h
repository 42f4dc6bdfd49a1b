// Byte-level byte-pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/memory/hash_table.h"
#include "framework/data/tokenizers/tokenizer.h"
#include "framework/data/tokenizers/word_patterns_impl.h"

namespace belfry::data {

// A token that is recognised in text before that is split into words.
struct AddedToken {
  std::string text = {};                         // not empty
  int32_t token = 0;                             // below the size of BpeModel::tokens
  bool takes_left = false, takes_right = false;  // the white space before it, after it
};

// The contents of a tokenizer's files, which BpeTokenizer::Create checks.
struct BpeModel {
  // The bytes of each token of the vocabulary; nullopt for an added one, and where no token has the number.
  std::vector<std::optional<std::string>> tokens = {};
  struct Merge {
    int32_t left = 0, right = 0;
  };
  std::vector<Merge> merges = {};  // the first is made first
  std::vector<AddedToken> added = {};
  WordPattern pattern = WordPattern::kGpt2;
  bool add_space = false;      // before the text, unless it begins with one
  bool ignore_merges = false;  // a word that is a token is not merged
};

class BpeTokenizer final : public Tokenizer {
 public:
  // InvalidArgument: a byte has no token, two tokens have the same bytes, or merges[i] makes none: "merges[i]: ...".
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Create(BpeModel model);

  int64_t vocabulary() const override { return static_cast<int64_t>(model_.tokens.size()); }
  std::vector<int32_t> Encode(absl::string_view text) const override;
  std::string Decode(absl::Span<const int32_t> tokens) const override;
  std::optional<int32_t> Find(absl::string_view text) const override;
  size_t CutPoint(absl::string_view text) const override;

 private:
  struct Scratch;  // memory for merges
  struct Merged {
    int32_t rank = 0, token = 0;
  };
  struct AddedMatch {
    size_t begin = 0, end = 0;  // end 0: there is none
    const AddedToken* token = nullptr;
  };

  explicit BpeTokenizer(BpeModel model) : model_(std::move(model)) {}
  absl::Status IndexTokens();
  absl::Status IndexMerges();
  void IndexAdded();
  void MarkWholeTokens();
  AddedMatch FindAdded(absl::string_view text, size_t from) const;
  void EncodeWords(absl::string_view text, Scratch& scratch, std::vector<int32_t>& tokens) const;
  void EncodeWord(absl::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;
  void MergeWord(absl::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;
  bool CutsAdded(absl::string_view text, size_t at) const;

  BpeModel model_;
  std::array<int32_t, 256> byte_tokens_ = {};
  HashMap<absl::string_view, int32_t> token_of_;  // by bytes, which belong to model_.tokens
  size_t longest_ = 0;                            // bytes of a token
  HashMap<uint64_t, Merged> merges_;              // by left << 32 | right
  std::vector<bool> whole_;                       // tokens of which, as a word, nothing else is made
  HashMap<absl::string_view, const AddedToken*> added_;
  HashMap<int32_t, absl::string_view> added_texts_;
  std::vector<size_t> added_sizes_;       // the sizes of added tokens, longest first
  std::array<bool, 256> begins_added_{};  // the bytes that they begin with
};

}  // namespace belfry::data
