#include "trainers/language_data.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/data/text/text.h"
#include "framework/data/text/tokens.h"
#include "framework/io/utf8.h"
#include "trainers/datasets/language.h"

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

namespace {

// The bytes of the character of UTF-8 that `text` begins with; 0 if it begins with none, or with a control character
// other than a line's end and a tab. A terminal would obey those, U+0080 to U+009F among them.
size_t LengthOfCharacter(absl::string_view text) {
  const auto [code, size] = io::FirstUtf8(text);
  const bool control = code < 0x20 || (0x7F <= code && code < 0xA0);
  return control && code != '\n' && code != '\t' ? 0 : size;
}

}  // namespace

std::string TokensText(const LanguageData& data, const std::vector<int32_t>& tokens) {
  if (data.kind == Kind::kTokens) return absl::StrJoin(tokens, " ");
  std::string bytes;
  for (const int32_t token : tokens) {
    bytes.push_back(static_cast<char>(data.kind == Kind::kGenerated ? 'a' + token : token));
  }
  std::string text;
  for (absl::string_view rest = bytes; !rest.empty();) {
    const size_t length = LengthOfCharacter(rest);
    if (length > 0) {
      absl::StrAppend(&text, rest.substr(0, length));
    } else {
      absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(rest[0]));
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

}  // namespace belfry::trainers
