#include "framework/io/utf8.h"

#include "tests/main/testing.h"

namespace belfry::io {
namespace {

TEST(Utf8, ReadsWhatItWrites) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (0xD800 <= code && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    ASSERT_EQ(text.size(), code < 0x80 ? 1u : code < 0x800 ? 2u : code < 0x10000 ? 3u : 4u);
    const Utf8Character read = FirstUtf8(text + "a");
    ASSERT_EQ(read.code, code);
    ASSERT_EQ(read.size, text.size());
    if (text.size() > 1) {
      ASSERT_EQ(FirstUtf8(text.substr(0, text.size() - 1)).size, 0u) << code;
    }
  }
}

TEST(Utf8, RefusesWhatIsNone) {
  // A byte in the middle, overlong forms, a surrogate, a number that is too large, another character within.
  for (const char* text :
       {"", "\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\xE2\x82z"}) {
    EXPECT_EQ(FirstUtf8(text).size, 0u) << text;
  }
}

TEST(EscapeBytes, KeepsAnyBytes) {
  EXPECT_EQ(EscapeBytes("caf\xC3\xA9/\n"), "caf\xC3\xA9/\n");
  // U+EFFF, which stands for the byte; and the three bytes of U+EF80, which would stand for another one.
  EXPECT_EQ(EscapeBytes("c\xFF"), "c\xEE\xBF\xBF");
  EXPECT_EQ(EscapeBytes("\xEE\xBE\x80"), "\xEE\xBF\xAE\xEE\xBE\xBE\xEE\xBE\x80");
  for (int turn = 0; turn < 10'000; ++turn) {
    std::string bytes(TestRandom()() % 12, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(TestRandom()() % 3 == 0 ? 0xEE - TestRandom()() % 2 * 0x2F : TestRandom()());
    const std::string text = EscapeBytes(bytes);
    for (absl::string_view rest = text; !rest.empty(); rest.remove_prefix(FirstUtf8(rest).size)) {
      ASSERT_GT(FirstUtf8(rest).size, 0u);
    }
    ASSERT_EQ(UnescapeBytes(text), bytes);
  }
}

TEST(Printable, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("a\tb\nc \xC3\xA9"), "a\tb\nc \xC3\xA9");
  EXPECT_EQ(Printable("\x1B[2J\r\x7F\xC2\x9B\xFF"), "\\x1b[2J\\x0d\\x7f\\xc2\\x9b\\xff");
}

}  // namespace
}  // namespace belfry::io
