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

}  // namespace
}  // namespace belfry::io
