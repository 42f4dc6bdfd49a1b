#include "trainers/language_data.h"

#include <string>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace belfry::trainers
