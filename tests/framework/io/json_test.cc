#include "framework/io/json_impl.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry::io {
namespace {

std::string Nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text, end;
  for (size_t i = 0; i < depth; ++i) absl::StrAppend(&text, open), absl::StrAppend(&end, close);
  return absl::StrCat(text, "1", end);
}

// The library's copies, comparisons and texts take a frame of the stack for each level.
TEST(ParseJson, TakesNoDeepNesting) {
  EXPECT_TRUE(ParseJson(Nested(100, "[", "]")).is_array());
  EXPECT_TRUE(ParseJson(Nested(100, "{\"a\":", "}")).is_object());
  for (const size_t depth : {101, 300'000}) {
    EXPECT_TRUE(ParseJson(Nested(depth, "[", "]")).is_discarded());
    EXPECT_TRUE(ParseJson(Nested(depth, "{\"a\":[", "]}")).is_discarded());
  }
}

TEST(ParseJson, CountsNoBracketsOfTexts) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(ParseJson(absl::StrCat("\"\\\"", brackets, "\"")), absl::StrCat("\"", brackets));
  std::string many = "[";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, "[],");
  EXPECT_EQ(ParseJson(absl::StrCat(many, "{}]")).size(), 1001u);
  EXPECT_TRUE(ParseJson("[1").is_discarded());
}

}  // namespace
}  // namespace belfry::io
