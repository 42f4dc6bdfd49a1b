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
  if (tokenizer != nullptr) return "token";
  return kind == Kind::kText ? "byte" : kind == Kind::kTokens ? "token" : "symbol";
}

std::optional<int32_t> LanguageData::TextEnd() const {
  if (tokenizer == nullptr) return std::nullopt;
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    if (const auto token = tokenizer->Find(name)) return token;
  }
  return std::nullopt;
}

namespace {

absl::StatusOr<data::TextData> OpenTokenFiles(const LanguageDataOptions& options, const data::Tokenizer* tokenizer) {
  if (tokenizer != nullptr && tokenizer->vocabulary() > options.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary of ", options.tokenizer, " has ",
                                                   tokenizer->vocabulary(),
                                                   " tokens, more than --vocabulary=", options.vocabulary));
  }
  return data::OpenTokens(options.path,
                          {.window = options.context, .vocabulary = options.vocabulary, .bits = options.token_bits});
}

}  // namespace

absl::StatusOr<LanguageData> OpenLanguageData(const LanguageDataOptions& options) {
  LanguageData data;
  if (!options.tokenizer.empty()) {
    if (options.path.empty()) {
      return absl::InvalidArgumentError("--tokenizer is for text; name a file or a folder of it by --data_dir");
    }
    ASSIGN_OR_RETURN(data.tokenizer, data::OpenTokenizer(options.tokenizer));
  }
  if (options.path.empty()) {
    ASSIGN_OR_RETURN(data::Language language,
                     data::GenerateLanguage({.source = {.seed = options.seed}, .window = options.context}));
    data.parts = std::move(language.data);
    data.floor = language.loss_floor;
  } else {
    ASSIGN_OR_RETURN(const bool tokens, data::HoldsTokens(options.path));
    data.kind = tokens ? Kind::kTokens : Kind::kText;
    if (tokens) {
      ASSIGN_OR_RETURN(data.parts, OpenTokenFiles(options, data.tokenizer.get()));
    } else if (data.tokenizer != nullptr) {
      ASSIGN_OR_RETURN(data.parts, data::OpenText(options.path, *data.tokenizer, {.window = options.context}));
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
  if (data.tokenizer != nullptr) return data.tokenizer->Encode(prompt);
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

// The bytes at the end of a text that may be the beginning of a character: up to 3.
size_t BeginningOfCharacter(absl::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(3, text.size()); ++size) {
    const auto first = static_cast<unsigned char>(text[text.size() - size]);
    if ((first & 0xC0) == 0x80) continue;
    const size_t whole = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
    return whole > size ? size : 0;
  }
  return 0;
}

bool PrintsNumbers(const LanguageData& data) { return data.kind == Kind::kTokens && data.tokenizer == nullptr; }

std::string BytesOf(const LanguageData& data, absl::Span<const int32_t> tokens) {
  if (data.tokenizer != nullptr) return data.tokenizer->Decode(tokens);
  std::string bytes;
  for (const int32_t token : tokens) {
    bytes.push_back(static_cast<char>(data.kind == Kind::kGenerated ? 'a' + token : token));
  }
  return bytes;
}

}  // namespace

std::string TokensText(const LanguageData& data, absl::Span<const int32_t> tokens) {
  return PrintsNumbers(data) ? absl::StrJoin(tokens, " ") : io::Printable(BytesOf(data, tokens));
}

std::string TextPrinter::Add(absl::Span<const int32_t> tokens) {
  if (tokens.empty()) return "";
  const bool first = std::exchange(first_, false);
  if (PrintsNumbers(data_)) return absl::StrCat(first ? "" : " ", absl::StrJoin(tokens, " "));
  absl::StrAppend(&held_, BytesOf(data_, tokens));
  const size_t whole = held_.size() - BeginningOfCharacter(held_);
  std::string text = io::Printable(absl::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return text;
}

std::string TextPrinter::Finish() { return io::Printable(std::exchange(held_, "")); }

}  // namespace belfry::trainers
