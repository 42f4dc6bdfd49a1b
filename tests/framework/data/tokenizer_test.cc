#include "framework/data/tokenizers/tokenizer.h"

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "framework/io/file.h"
#include "tests/main/testing.h"

namespace belfry::data {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using TokenList = std::vector<int32_t>;
namespace fs = std::filesystem;

const std::string kFolder = absl::StrCat(BELFRY_SOURCE_ROOT, "/tests/framework/data/tokenizers/");

std::unique_ptr<const Tokenizer> Open(const std::string& name) { return ValueOf(OpenTokenizer(kFolder + name)); }

// The tokens that Hugging Face's `tokenizers` made (make_references.py).
class References : public testing::TestWithParam<std::string> {};

TEST_P(References, HaveTheSameTokens) {
  const auto tokenizer = Open(GetParam() == "pair" ? "vocab.json" : GetParam() + ".json");
  ASSERT_NE(tokenizer, nullptr);
  const Json cases = Json::parse(io::ReadFile(kFolder + "references.json").value());
  ASSERT_GT(cases.size(), 90u);
  for (const Json& item : cases) {
    const std::string text = item["text"];
    const TokenList expected = item[GetParam() == "pair" ? "gpt2" : GetParam()];
    EXPECT_EQ(tokenizer->Encode(text), expected) << item["text"];
    // Long texts are encoded in parts.
    const size_t cut = tokenizer->CutPoint(text);
    TokenList parts = tokenizer->Encode(absl::string_view(text).substr(0, cut));
    for (const int32_t token : tokenizer->Encode(absl::string_view(text).substr(cut))) parts.push_back(token);
    EXPECT_EQ(parts, expected) << item["text"] << " cut at " << cut;
    if (GetParam() != "roberta") {  // which adds and removes spaces
      EXPECT_EQ(tokenizer->Decode(expected), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, References, testing::Values("gpt2", "roberta", "llama3", "qwen2", "pair"),
                         [](const auto& info) { return info.param; });

TEST(Tokenizer, FindsTokensByTheirText) {
  const auto tokenizer = Open("roberta.json");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary(), 504);
  EXPECT_EQ(tokenizer->Find("<mask>"), 500);
  EXPECT_EQ(tokenizer->Find("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer->Find("\xFF").has_value(), true);
  EXPECT_EQ(tokenizer->Find("<none>"), std::nullopt);
}

TEST(Tokenizer, KeepsBytesThatAreNoText) {
  const auto tokenizer = Open("llama3.json");
  ASSERT_NE(tokenizer, nullptr);
  std::string bytes;
  for (int i = 0; i < 512; ++i) bytes.push_back(static_cast<char>(i * 37));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(bytes)), bytes);
  EXPECT_EQ(tokenizer->Decode({-1, 1 << 30}), "");
}

// Merges of a long word take n log n steps: a quadratic number would take minutes.
TEST(Tokenizer, EncodesLongWords) {
  const auto tokenizer = Open("gpt2.json");
  ASSERT_NE(tokenizer, nullptr);
  std::string word;
  for (int i = 0; i < 3'000'000; ++i) word.push_back("thenitor"[i % 8]);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(word)), word);
}

TEST(Tokenizer, CutsWhereTokensStayTheSame) {
  const auto tokenizer = Open("roberta.json");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->CutPoint("one two, three"), 3u);    // not after the comma
  EXPECT_EQ(tokenizer->CutPoint("of new york"), 2u);       // not within the added token "new york"
  EXPECT_EQ(tokenizer->CutPoint("of new y"), 2u);          // which may go on so
  EXPECT_EQ(tokenizer->CutPoint("one\ntwo"), 0u);          // a space would be put before the line
  EXPECT_EQ(Open("gpt2.json")->CutPoint("one\ntwo"), 3u);  // not here
  EXPECT_EQ(tokenizer->CutPoint(""), 0u);
  EXPECT_EQ(tokenizer->CutPoint("\u0434\u0430 \u043D\u0435\u0442"), 4u);  // two Cyrillic words
  EXPECT_EQ(tokenizer->CutPoint("7 8, 9"), 1u);
  EXPECT_EQ(tokenizer->CutPoint("\xB0\xB4 a"), 0u);  // bytes that are no text
}

TEST(OpenTokenizer, LooksIntoFolders) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  EXPECT_EQ(OpenTokenizer(folder.string()).status().code(), absl::StatusCode::kNotFound);
  fs::copy(kFolder + "vocab.json", folder);
  EXPECT_THAT(OpenTokenizer(folder.string()).status().message(), HasSubstr("merges.txt"));
  fs::copy(kFolder + "merges.txt", folder);
  ASSERT_TRUE(OpenTokenizer(folder.string()).ok());
  EXPECT_EQ((*OpenTokenizer(folder.string()))->vocabulary(), 500);
  fs::copy(kFolder + "roberta.json", folder / "tokenizer.json");
  EXPECT_EQ((*OpenTokenizer(folder.string()))->vocabulary(), 504);
}

// Errors of the small tokenizer with changes.
class Damaged : public testing::Test {
 protected:
  absl::Status With(const std::string& pointer, const Json& value) {
    Json json = json_;
    json[Json::json_pointer(pointer)] = value;
    return ParseTokenizer(json.dump(), "t.json").status();
  }
  void Expect(const absl::Status& status, const std::string& message,
              absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  const Json json_ = Json::parse(io::ReadFile(kFolder + "llama3.json").value());
};

TEST_F(Damaged, NamesThePlace) {
  Expect(ParseTokenizer("{", "t.json").status(), "t.json: is not a JSON object");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  Expect(ParseTokenizer(absl::StrCat(R"({"model": {"type": "BPE", "dropout": )", deep, "}}"), "t.json").status(),
         "dropout array is not supported", absl::StatusCode::kUnimplemented);
  Expect(With("/model", nullptr), "t.json: model: the file has no model");
  Expect(With("/model/vocab", 3), "t.json: model.vocab: expected an object of tokens");
  Expect(With("/model/vocab/the", -1), "t.json: model.vocab['the']: token -1 is not from 0 to 66037");
  Expect(With("/model/vocab/the", uint64_t{1} << 63), "token 9223372036854775808 is not from 0");
  Expect(With("/model/vocab/the", 3), "another token is 3, too");
  Expect(With("/model/vocab/the", "3"), "expected the number of a token");
  Expect(With("/model/merges/2", "onlyone"), "t.json: model.merges[2]: expected two tokens with a space between them");
  Expect(With("/model/merges/2", "a zzz"), "t.json: model.merges[2]: 'zzz' is not in the vocabulary");
  Expect(With("/model/merges/2", "Z Z"), "t.json: merges[2]: no token is 'ZZ', which it makes");
  Expect(With("/model/merges/2", 3), "expected \"left right\"");
  Expect(With("/added_tokens/0/content", ""), "t.json: added_tokens[0]: expected an object with \"content\"");
  Expect(With("/added_tokens/0/id", 5), "t.json: added_tokens[0]: another token is 5, too");
  Json json = json_;
  json["model"]["vocab"].erase("Z");
  Expect(ParseTokenizer(json.dump(), "t.json").status(), "t.json: no token is the byte 0x5a");
  Expect(ParseVocabularyAndMerges("{}", "#version: 0.2\na b\n", "v").status(),
         "v: line 2 of the merges: 'a' is not in");
}

TEST_F(Damaged, NamesWhatIsNotSupported) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  Expect(With("/model/type", "Unigram"), "t.json: model: a model of type 'Unigram' is not supported", unimplemented);
  Expect(With("/model/byte_fallback", true), "model: byte_fallback", unimplemented);
  Expect(With("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix \"</w>\"", unimplemented);
  Expect(With("/normalizer", {{"type", "NFC"}}), "t.json: normalizer: the normalizer 'NFC'", unimplemented);
  Expect(With("/decoder", {{"type", "Metaspace"}}), "decoder: the decoder 'Metaspace'", unimplemented);
  Expect(With("/pre_tokenizer", {{"type", "Whitespace"}}), "the pre-tokenizer 'Whitespace' here", unimplemented);
  Expect(With("/pre_tokenizer", nullptr), "a file without a pre_tokenizer", unimplemented);
  Expect(With("/pre_tokenizer/pretokenizers/0/pattern/Regex", "x+"),
         "pre_tokenizer.pretokenizers[0]: the expression 'x+'", unimplemented);
  Expect(With("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), "not \"Isolated\"", unimplemented);
  Expect(With("/added_tokens/0/single_word", true), "added_tokens[0]: single_word", unimplemented);
}

}  // namespace
}  // namespace belfry::data
