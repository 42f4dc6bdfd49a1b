// Input: a byte for the kind of file, then texts that end with a zero byte: tokenizer.json, or vocabulary and merges;
// then a text to encode.
#include "framework/data/tokenizers/tokenizer.h"

#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  fuzz::Input input(data, size);
  const bool pair = input.Byte() % 2 == 1;
  absl::string_view rest = input.Rest();
  const auto next = [&] {
    const absl::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    return text;
  };
  const absl::string_view json = next();
  const auto tokenizer =
      pair ? data::ParseVocabularyAndMerges(json, next(), "input") : data::ParseTokenizer(json, "input");
  if (!tokenizer.ok()) {
    BELFRY_CHECK(tokenizer.status().code() == absl::StatusCode::kInvalidArgument ||
                 tokenizer.status().code() == absl::StatusCode::kUnimplemented);
    return 0;
  }
  const std::vector<int32_t> tokens = (*tokenizer)->Encode(rest);
  for (const int32_t token : tokens) BELFRY_CHECK(0 <= token && token < (*tokenizer)->vocabulary());
  (*tokenizer)->Decode(tokens);
  const size_t cut = (*tokenizer)->CutPoint(rest);
  std::vector<int32_t> parts = (*tokenizer)->Encode(rest.substr(0, cut));
  const std::vector<int32_t> second = (*tokenizer)->Encode(rest.substr(cut));
  parts.insert(parts.end(), second.begin(), second.end());
  BELFRY_CHECK(parts == tokens);
  return 0;
}
