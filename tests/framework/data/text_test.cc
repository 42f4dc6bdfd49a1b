#include "framework/data/text/text.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/npy.h"
#include "framework/data/text/tokens.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// All tokens of a data set, and the target of the last.
std::vector<int32_t> Tokens(const Dataset& dataset) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto example = ReadExample(dataset, i);
    EXPECT_TRUE(example.ok()) << example.status();
    if (!example.ok()) return {};
    const Tensor &tokens = (*example)[0], &targets = (*example)[1];
    const int64_t n = tokens.elements();
    if (all.empty()) all.push_back(tokens.data<int32_t>()[0]);
    EXPECT_EQ(all.back(), tokens.data<int32_t>()[0]);
    for (int64_t j = 0; j + 1 < n; ++j) EXPECT_EQ(tokens.data<int32_t>()[j + 1], targets.data<int32_t>()[j]);
    all.insert(all.end(), targets.data<int32_t>(), targets.data<int32_t>() + n);
  }
  return all;
}

class TextTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& bytes) {
    folder_.Write(name, bytes);
    return folder_ / name;
  }
  // The tokens of training, in windows of 3.
  std::vector<int32_t> Read(const std::string& path, TokenOptions options = {}) {
    options.window = 3, options.validation = 0;
    const auto data = OpenTokens(path, options);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? Tokens(*data->train) : std::vector<int32_t>();
  }
  absl::Status Error(const std::string& bytes, TokenOptions options = {}) {
    options.window = 3, options.validation = 0;
    return OpenTokens(Put("tokens.bin", bytes), options).status();
  }
  static std::string WithHeader(std::vector<int32_t> words, const std::string& tokens) {
    words.resize(256);
    return Bytes(words) + tokens;
  }

  TemporaryFolder folder_;
  const std::vector<uint16_t> short_ = {50256, 1, 0, 65535, 4, 5, 6};
  const std::vector<int32_t> expected_ = {50256, 1, 0, 65535, 4, 5, 6};
};

TEST_F(TextTest, WindowsOverlapByOneToken) {
  ASSERT_OK_AND_ASSIGN(const auto data, OpenText(Put("a.txt", "To be, or not\xff"), {.window = 4, .validation = 0}));
  EXPECT_EQ(data.validation, nullptr);
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(FieldsText(data.train->fields()), "tokens int32 [4], targets int32 [4]");
  EXPECT_EQ(data.train->fields()[0].categories, 256);
  const std::string text = "To be, or not";
  EXPECT_EQ(Tokens(*data.train), std::vector<int32_t>(text.begin(), text.end()));
}

TEST_F(TextTest, TheEndIsHeldOut) {
  const auto data =
      OpenText(Put("a.txt", std::string(80, 'a') + std::string(20, 'b')), {.window = 4, .validation = 0.2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(Tokens(*data->train), std::vector<int32_t>(77, 'a'));
  EXPECT_EQ(Tokens(*data->validation), std::vector<int32_t>(17, 'b'));
}

TEST_F(TextTest, FoldersAreOneStreamOrDividedByNames) {
  Put("b.txt", "456"), Put("a.txt", "123"), Put(".hidden", "xyz");
  std::filesystem::create_directory(folder_ / "inner");
  ASSERT_OK_AND_ASSIGN(const auto one, OpenText(folder_ / "", {.window = 2, .validation = 0}));
  EXPECT_EQ(Tokens(*one.train), (std::vector<int32_t>{'1', '2', '3', '4', '5'}));
  Put("my_train.txt", "train"), Put("my_val.txt", "valid");
  ASSERT_OK_AND_ASSIGN(const auto two, OpenText(folder_ / "", {.window = 2}));
  EXPECT_EQ(Tokens(*two.train), (std::vector<int32_t>{'t', 'r', 'a', 'i', 'n'}));
  EXPECT_EQ(Tokens(*two.validation), (std::vector<int32_t>{'v', 'a', 'l', 'i', 'd'}));
}

TEST_F(TextTest, TokensOfEachFormat) {
  const std::vector<uint32_t> wide(expected_.begin(), expected_.end());
  EXPECT_EQ(Read(Put("raw16.bin", Bytes(short_))), expected_);
  EXPECT_EQ(Read(Put("raw32.bin", Bytes(wide)), {.bits = 32}), expected_);
  EXPECT_EQ(Read(Put("gpt2.bin", WithHeader({20240520, 1, 7}, Bytes(short_)))), expected_);
  EXPECT_EQ(Read(Put("llama3.bin", WithHeader({20240801, 7, 7}, Bytes(wide)))), expected_);
  Tensor numbers(DType::kInt32, {7});
  std::memcpy(numbers.raw(), expected_.data(), numbers.bytes());
  ASSERT_TRUE(WriteNpy(folder_ / "a.npy", numbers).ok());
  EXPECT_EQ(Read(folder_ / "a.npy"), expected_);
}

TEST_F(TextTest, KnowsFilesOfTokensFromText) {
  EXPECT_EQ(*HoldsTokens(Put("a.bin", "ab")), true);
  EXPECT_EQ(*HoldsTokens(Put("header", WithHeader({20240520, 1, 1}, "ab"))), true);
  EXPECT_EQ(*HoldsTokens(Put("a.txt", "text")), false);
  EXPECT_EQ(*HoldsTokens(folder_ / ""), true);
  EXPECT_EQ(HoldsTokens(folder_ / "nowhere").status().code(), StatusCode::kNotFound);
}

TEST_F(TextTest, DamagedFilesAreErrors) {
  const std::string tokens = Bytes(short_);
  ExpectError(Error(""), StatusCode::kInvalidArgument, "tokens.bin: the file is empty");
  ExpectError(Error(tokens + "x"), StatusCode::kDataLoss, "holds 15 bytes, no multiple of 2");
  ExpectError(Error(tokens.substr(0, 6)), StatusCode::kInvalidArgument,
              "3 tokens; a window and the token after it are 3 + 1");
  ExpectError(Error(WithHeader({20240520, 1, 8}, tokens)), StatusCode::kDataLoss,
              "holds 1038 bytes; expected 1040 for the 8 tokens");
  ExpectError(Error(WithHeader({20240520, 1, -1}, tokens)), StatusCode::kDataLoss, "says -1 tokens");
  ExpectError(Error(WithHeader({20240520, 9, 7}, tokens)), StatusCode::kUnimplemented, "version 9");
  ExpectError(Error(WithHeader({20240520, 1, 7}, "").substr(0, 99)), StatusCode::kDataLoss,
              "ends at byte 99, within the header");
  ExpectError(Error(WithHeader({20240522, 1, 7}, tokens)), StatusCode::kInvalidArgument, "multiple-choice questions");
  ExpectError(Error(Bytes(std::vector<uint32_t>(100, 3000))), StatusCode::kInvalidArgument, "seem to have 32 bits");
  ExpectError(Error(tokens, {.bits = 8}), StatusCode::kInvalidArgument, "tokens of 8 bits");
  ExpectError(Error(tokens, {.vocabulary = -1}), StatusCode::kInvalidArgument, "vocabulary is -1");
  ExpectError(OpenText(folder_ / "nowhere").status(), StatusCode::kNotFound, "nowhere");
}

TEST_F(TextTest, ATokenOutsideTheVocabularyIsAnErrorOfTheRead) {
  ASSERT_OK_AND_ASSIGN(const auto data,
                       OpenTokens(Put("a.bin", Bytes(short_)), {.window = 3, .vocabulary = 50'257, .validation = 0}));
  ExpectError(ReadExample(*data.train, 0).status(), StatusCode::kDataLoss,
              "a.bin: token 3 is 65535; expected 0 to 50256, the vocabulary");
}

TEST_F(TextTest, FilesBeyondTheLimitOfOpenOnesAreReadToo) {
  std::string all;
  for (int i = 0; i < 300; ++i) {
    const std::string text = absl::StrCat("file ", i, ";");
    Put(absl::StrCat("part", 1000 + i), text);
    all += text;
  }
  ASSERT_OK_AND_ASSIGN(const auto data, OpenText(folder_ / "", {.window = 7, .validation = 0}));
  const std::vector<int32_t> tokens = Tokens(*data.train);
  ASSERT_GT(tokens.size(), all.size() - 8);
  EXPECT_EQ(tokens, std::vector<int32_t>(all.begin(), all.begin() + static_cast<int64_t>(tokens.size())));
}

// Some MB, which are read in pieces: the tokens are those of the whole.
TEST_F(TextTest, TokensOfATokenizer) {
  const auto tokenizer =
      OpenTokenizer(absl::StrCat(BELFRY_SOURCE_ROOT, "/tests/framework/data/tokenizers/llama3.json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string text;
  for (int64_t i = 0; text.size() < (3 << 20); ++i)
    absl::StrAppend(&text, "The\n  model's ", i * i, "\xC3\xB6 tower,", i % 7);
  const std::vector<int32_t> expected = (*tokenizer)->Encode(text);
  ASSERT_OK_AND_ASSIGN(const auto data, OpenText(Put("a.txt", text), **tokenizer, {.window = 1000, .validation = 0}));
  EXPECT_EQ(data.train->fields()[0].categories, 500);
  const std::vector<int32_t> tokens = Tokens(*data.train);
  ASSERT_GT(tokens.size() + 1000, expected.size());  // but for an incomplete window
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));

  // Without spaces it is cut between characters, so no token is lost or damaged.
  std::string dense;
  while (dense.size() < (5 << 20)) absl::StrAppend(&dense, "\xE6\x97\xA5\xE6\x9C\xAC.");
  std::string decoded;
  ASSERT_TRUE(EncodeFile(Put("b.txt", dense), **tokenizer, [&](absl::Span<const int32_t> tokens) {
                const std::string piece = (*tokenizer)->Decode(tokens);
                EXPECT_NE(piece[0] & 0xC0, 0x80);
                decoded += piece;
                return absl::OkStatus();
              }).ok());
  EXPECT_TRUE(decoded == dense);
  EXPECT_EQ(OpenText(folder_ / "none", **tokenizer).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace belfry::data
