#include "trainers/language_data.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/io/file.h"
#include "tests/main/testing.h"

namespace belfry::trainers {
namespace {

std::string PrintedText(const std::string& bytes) {
  LanguageData data;
  data.kind = LanguageData::Kind::kText;
  std::vector<int32_t> tokens;
  for (const char c : bytes) tokens.push_back(static_cast<unsigned char>(c));
  return TokensText(data, tokens);
}

TEST(TokensText, LeavesTextAsItIs) {
  for (const std::string text : {"", "one\n\ttwo", "K\xC3\xB6ln \xE2\x82\xAC \xF0\x9F\x99\x82", "\xC2\xA0"}) {
    EXPECT_EQ(PrintedText(text), text);
  }
}

// A terminal obeys control characters, and a sample may have any.
TEST(TokensText, EscapesControlCharactersAndWhatIsNoText) {
  EXPECT_EQ(PrintedText("\x1b[2J\x07\r\x7f"), "\\x1b[2J\\x07\\x0d\\x7f");
  EXPECT_EQ(PrintedText("\xC2\x9B"
                        "2J"),
            "\\xc2\\x9b2J");                                             // U+009B, as ESC [
  EXPECT_EQ(PrintedText("a\x80\xFF\xC0\xAF"), "a\\x80\\xff\\xc0\\xaf");  // no beginnings of characters
  EXPECT_EQ(PrintedText("\xE2\x82"), "\\xe2\\x82");                      // cut off
  EXPECT_EQ(PrintedText("\xE0\x80\x80\xED\xA0\x80\xF4\x90\x80\x80"),
            "\\xe0\\x80\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");  // overlong, a surrogate, too large
}

TEST(TextPrinter, HoldsCharactersBackUntilTheyAreWhole) {
  LanguageData data;
  data.kind = LanguageData::Kind::kText;
  TextPrinter printer(data);
  EXPECT_EQ(printer.Add({'a', 0xE2}), "a");
  EXPECT_EQ(printer.Add({0x82}), "");
  EXPECT_EQ(printer.Add({0xAC, 'b', 0xC3}),
            "\xE2\x82\xAC"
            "b");
  EXPECT_EQ(printer.Add({'c'}), "\\xc3c");
  EXPECT_EQ(printer.Add({0xF0, 0x9F, 0x99}), "");
  EXPECT_EQ(printer.Finish(), "\\xf0\\x9f\\x99");
  EXPECT_EQ(printer.Finish(), "");

  data.kind = LanguageData::Kind::kTokens;
  TextPrinter numbers(data);
  EXPECT_EQ(numbers.Add({}), "");
  EXPECT_EQ(numbers.Add({1, 22}), "1 22");
  EXPECT_EQ(numbers.Add({3}), " 3");
}

TEST(LanguageData, IsTextThroughATokenizer) {
  const std::string tokenizer = absl::StrCat(BELFRY_SOURCE_ROOT, "/tests/framework/data/tokenizers/gpt2.json");
  const std::string readme = absl::StrCat(BELFRY_SOURCE_ROOT, "/README.md");
  ASSERT_OK_AND_ASSIGN(const auto data, OpenLanguageData({.path = readme, .tokenizer = tokenizer}));
  EXPECT_EQ(data.vocabulary, 500);
  EXPECT_EQ(data.unit(), "token");
  EXPECT_EQ(data.TextEnd(), 0);
  ASSERT_OK_AND_ASSIGN(const auto prompt, ParsePrompt(data, "The tower, \xE2\x82\xAC"));
  EXPECT_LT(prompt.size(), 14u);
  EXPECT_EQ(TokensText(data, prompt), "The tower, \xE2\x82\xAC");
  TextPrinter printer(data);
  std::string text;
  for (const int32_t token : prompt) text += printer.Add({token});
  EXPECT_EQ(text, "The tower, \xE2\x82\xAC");
  EXPECT_EQ(OpenLanguageData({.tokenizer = tokenizer}).status().code(), absl::StatusCode::kInvalidArgument);
}

// A file of tokens that a tokenizer made has numbers for tokens, and text for prompts.
TEST(LanguageData, IsTokensWithATokenizer) {
  const std::string tokenizer = absl::StrCat(BELFRY_SOURCE_ROOT, "/tests/framework/data/tokenizers/gpt2.json");
  const std::string path = testing::TempDir() + "/belfry_language_data.bin";
  ASSERT_TRUE(io::WriteFile(path, std::string(4000, '\1')).ok());
  ASSERT_OK_AND_ASSIGN(const auto data, OpenLanguageData({.path = path, .vocabulary = 512, .tokenizer = tokenizer}));
  EXPECT_EQ(data.vocabulary, 512);
  EXPECT_EQ(TokensText(data, *ParsePrompt(data, "a b")), "a b");
  EXPECT_THAT(OpenLanguageData({.path = path, .vocabulary = 400, .tokenizer = tokenizer}).status().message(),
              testing::HasSubstr("has 500 tokens, more than --vocabulary=400"));
  ASSERT_TRUE(io::RemoveFile(path).ok());
}

}  // namespace
}  // namespace belfry::trainers
