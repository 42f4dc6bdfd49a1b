// The regular expressions by which byte-level tokenizers split text into words, which merges do not cross.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace belfry::data {

enum class WordPattern {
  kNone,    // the whole text is one word
  kGpt2,    // of GPT-2, RoBERTa, GPT-NeoX
  kLlama3,  // of Llama 3, and of OpenAI's cl100k
  kQwen2,   // as kLlama3, but each digit is a word
};

// The expressions as tokenizer.json has them.
inline constexpr absl::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr absl::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr absl::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The length of the first word of `text`, at least 1. A byte that is not UTF-8 counts as a character that is neither
// letter nor digit nor white space. REQUIRES: `text` is not empty.
size_t FirstWord(WordPattern pattern, absl::string_view text);

}  // namespace belfry::data
