// The text that a language model is trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/text/windows.h"
#include "framework/data/tokenizers/tokenizer.h"

namespace belfry::trainers {

struct LanguageDataOptions {
  std::string path = {};        // a file or a folder; empty: a generated language
  int64_t context = 64;         // T
  int64_t vocabulary = 50'257;  // of files of tokens; with a tokenizer, at least its own
  int token_bits = 16;          // of those without a header
  std::string tokenizer = {};   // a file or a folder (data::OpenTokenizer) for text and prompts; empty: bytes
  uint64_t seed = 1;            // of the generated language
};

struct LanguageData {
  enum class Kind { kText, kTokens, kGenerated };
  Kind kind = Kind::kGenerated;
  data::TextData parts;  // with a validation part in any case
  int64_t vocabulary = 0;
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: none
  double floor = 0;                                  // the least loss that a model can have, in nats; 0: unknown

  absl::string_view unit() const;  // of a token: "byte", "token", "symbol"
  // The token that ends a text, and begins one: <|endoftext|>, <|end_of_text|> or </s>; nullopt: there is none.
  std::optional<int32_t> TextEnd() const;
};

// Opens what the path holds: files of tokens (data::OpenTokens) or text (data::OpenText). InvalidArgument: no part for
// validation, or a tokenizer without a path or with a larger vocabulary. Otherwise the errors of these.
absl::StatusOr<LanguageData> OpenLanguageData(const LanguageDataOptions& options);

// A prompt as tokens: the tokenizer's, if there is one; the bytes of a text; numbers separated by commas or
// spaces; letters from 'a' on for the generated language. InvalidArgument names what is none of them.
absl::StatusOr<std::vector<int32_t>> ParsePrompt(const LanguageData& data, const std::string& prompt);
// Tokens as they are printed: the reverse. Control characters of a text, and bytes that are not UTF-8, are shown as
// \x07.
std::string TokensText(const LanguageData& data, absl::Span<const int32_t> tokens);

// Text for a terminal as it comes, token by token: a character is held back until it is whole. Not thread-safe.
class TextPrinter {
 public:
  // `data` must outlive the printer.
  explicit TextPrinter(const LanguageData& data) : data_(data) {}
  // The text that can be printed now, as TokensText shows it.
  std::string Add(absl::Span<const int32_t> tokens);
  // The rest.
  std::string Finish();

 private:
  const LanguageData& data_;
  std::string held_;
  bool first_ = true;  // no token was added yet
};

}  // namespace belfry::trainers
