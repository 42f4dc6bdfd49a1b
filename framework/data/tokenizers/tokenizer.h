// Tokenizers: text as numbers of a vocabulary that was learned from text, and the reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::data {

// Immutable, so any number of threads may use one at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Tokens are in [0, vocabulary()).
  virtual int64_t vocabulary() const = 0;
  // The tokens of a text, without any that mark its beginning or its end. Added tokens, such as <|endoftext|>, are
  // recognised in the text. Bytes that are not UTF-8 are kept.
  virtual std::vector<int32_t> Encode(absl::string_view text) const = 0;
  // The text of tokens. It may begin or end within a character, as tokens do. Numbers that no token has add nothing.
  virtual std::string Decode(absl::Span<const int32_t> tokens) const = 0;
  // The token whose text is `text`, such as "<|endoftext|>"; nullopt if there is none.
  virtual std::optional<int32_t> Find(absl::string_view text) const = 0;
  // The longest beginning of `text` that may be encoded apart from the rest: the tokens of both parts are those of the
  // whole, however the text goes on. 0 if there is none, as in a text without spaces.
  virtual size_t CutPoint(absl::string_view text) const = 0;
};

// Reads a tokenizer of byte-level byte-pair encoding (Sennrich et al., 2016; Radford et al., 2019), such as those of
// GPT-2, RoBERTa and Llama 3:
//
//   tokenizer.json           of Hugging Face's `tokenizers`: the model BPE; the pre-tokenizer ByteLevel, or a Split by
//                            the expression of GPT-2, Llama 3 (also of OpenAI's cl100k) or Qwen 2, and ByteLevel;
//                            added tokens. Truncation, padding and the post-processor are left to the caller
//   vocab.json, merges.txt   of GPT-2. Tokens that are neither bytes nor made by a merge are added tokens
//
// `path` is tokenizer.json, vocab.json with merges.txt beside it, or a folder with either. Tokens are those of
// `tokenizers`. NotFound: no such file. InvalidArgument: a damaged file, with the place. Unimplemented: another kind of
// tokenizer, by its name. Otherwise the errors of io::ReadFile.
absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path);

// The same of files that have been read; errors begin with `name`.
absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json, absl::string_view name);
absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseVocabularyAndMerges(absl::string_view vocabulary,
                                                                          absl::string_view merges,
                                                                          absl::string_view name);

}  // namespace belfry::data
