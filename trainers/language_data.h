// The text that a language model is trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/text/windows.h"

namespace belfry::trainers {

struct LanguageDataOptions {
  std::string path = {};        // a file or a folder; empty: a generated language
  int64_t context = 64;         // T
  int64_t vocabulary = 50'257;  // of files of tokens
  int token_bits = 16;          // of those without a header
  uint64_t seed = 1;            // of the generated language
};

struct LanguageData {
  enum class Kind { kText, kTokens, kGenerated };
  Kind kind = Kind::kGenerated;
  data::TextData parts;  // with a validation part in any case
  int64_t vocabulary = 0;
  double floor = 0;  // the least loss that a model can have, in nats; 0: unknown

  absl::string_view unit() const;  // of a token: "byte", "token", "symbol"
};

// Opens what the path holds: files of tokens (data::OpenTokens) or text (data::OpenText). InvalidArgument: no part for
// validation. Otherwise the errors of these.
absl::StatusOr<LanguageData> OpenLanguageData(const LanguageDataOptions& options);

// A prompt as tokens: the bytes of a text; numbers separated by commas or spaces; letters from 'a' on for the generated
// language. InvalidArgument names what is none of them.
absl::StatusOr<std::vector<int32_t>> ParsePrompt(const LanguageData& data, const std::string& prompt);
// Tokens as they are printed: the reverse. Control characters of a text, and bytes that are not UTF-8, are shown as
// \x07.
std::string TokensText(const LanguageData& data, const std::vector<int32_t>& tokens);

}  // namespace belfry::trainers
