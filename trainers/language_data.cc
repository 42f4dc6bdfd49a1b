#include "trainers/language_data.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/data/text/language.h"
#include "framework/data/text/text.h"
#include "framework/data/text/tokens.h"

namespace belfry::trainers {

using Kind = LanguageData::Kind;

absl::string_view LanguageData::unit() const {
  return kind == Kind::kText ? "byte" : kind == Kind::kTokens ? "token" : "symbol";
}

absl::StatusOr<LanguageData> OpenLanguageData(const LanguageDataOptions& options) {
  LanguageData data;
  if (options.path.empty()) {
    ASSIGN_OR_RETURN(data::Language language,
                     data::GenerateLanguage({.source = {.seed = options.seed}, .window = options.context}));
    data.parts = std::move(language.data);
    data.floor = language.loss_floor;
  } else {
    ASSIGN_OR_RETURN(const bool tokens, data::HoldsTokens(options.path));
    data.kind = tokens ? Kind::kTokens : Kind::kText;
    if (tokens) {
      ASSIGN_OR_RETURN(data.parts, data::OpenTokens(options.path, {.window = options.context,
                                                                   .vocabulary = options.vocabulary,
                                                                   .bits = options.token_bits}));
    } else {
      ASSIGN_OR_RETURN(data.parts, data::OpenText(options.path, {.window = options.context}));
    }
  }
  if (data.parts.validation == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": there is no part for validation"));
  }
  data.vocabulary = data.parts.train->fields()[0].categories;
  return data;
}

absl::StatusOr<std::vector<int32_t>> ParsePrompt(const LanguageData& data, const std::string& prompt) {
  std::vector<int32_t> tokens;
  if (data.kind == Kind::kText) {
    for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  if (data.kind == Kind::kGenerated) {
    for (const char c : prompt) {
      tokens.push_back(c - 'a');
      if (0 <= tokens.back() && tokens.back() < data.vocabulary) continue;
      return absl::InvalidArgumentError(absl::StrFormat("prompt '%s': the generated language has the letters a to %c",
                                                        prompt, static_cast<char>('a' + data.vocabulary - 1)));
    }
    return tokens;
  }
  for (const absl::string_view word : absl::StrSplit(prompt, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    int32_t token = 0;
    if (!absl::SimpleAtoi(word, &token) || token < 0 || token >= data.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("prompt '", prompt, "': '", word, "' is no token from 0 to ",
                                                     data.vocabulary - 1, "; separate them by commas"));
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string TokensText(const LanguageData& data, const std::vector<int32_t>& tokens) {
  if (data.kind == Kind::kTokens) return absl::StrJoin(tokens, " ");
  std::string text;
  for (const int32_t token : tokens) {
    const char c = static_cast<char>(data.kind == Kind::kGenerated ? 'a' + token : token);
    const bool shown = !absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == '\n' || c == '\t';
    text += shown ? std::string(1, c) : absl::StrFormat("\\x%02x", static_cast<unsigned char>(c));
  }
  return text;
}

}  // namespace belfry::trainers
