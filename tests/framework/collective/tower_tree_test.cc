#include "framework/collective/tower_tree.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

// The sum of values [begin, end) by the definition: subtrees of 2^l values, and at the end all that wait.
std::string Tree(int begin, int end) {
  if (end - begin == 1) return absl::StrCat(begin);
  int half = 1;
  while (2 * half < end - begin) half *= 2;
  return absl::StrCat("(", Tree(begin, begin + half), "+", Tree(begin + half, end), ")");
}

std::string Join(const std::string& a, const std::string& b) { return absl::StrCat("(", a, "+", b, ")"); }

TEST(TowerTree, CarriesMakeTheTree) {
  for (int count = 1; count <= 70; ++count) {
    std::vector<std::string> waiting;
    const auto add_last = [&] {
      const std::string last = waiting.back();
      waiting.pop_back();
      waiting.back() = Join(waiting.back(), last);
    };
    for (int i = 0; i < count; ++i) {
      waiting.push_back(absl::StrCat(i));
      for (int carries = TreeCarries(i); carries > 0; --carries) add_last();
    }
    while (waiting.size() > 1) add_last();
    EXPECT_EQ(waiting[0], Tree(0, count));
  }
}

TEST(TowerTree, MergesMakeTheTree) {
  for (int count = 1; count <= 70; ++count) {
    std::vector<std::string> sums(8);
    for (int i = 0; i < count; ++i) {
      std::string sum = absl::StrCat(i);
      for (int level = 0; level < 8; ++level) {
        if ((TreeMerges(i, count) >> level & 1) != 0) sum = Join(sums[level], sum);
      }
      sums[TreeLevel(i, count)] = sum;
    }
    EXPECT_EQ(sums[0], Tree(0, count));
  }
}

// With all values there, and with any of them left out: the tree of those that are left.
TEST(TowerTree, AddsUpBeforeMakesTheTree) {
  const auto without = [](int begin, int end, uint64_t there, const auto& self) -> std::string {
    if (end - begin == 1) return (there >> begin & 1) != 0 ? absl::StrCat(begin) : "";
    const int half = (end - begin) / 2;
    const std::string a = self(begin, begin + half, there, self), b = self(begin + half, end, there, self);
    return a.empty() ? b : b.empty() ? a : Join(a, b);
  };
  for (uint64_t there = 1; there < 1 << 16; there += 7) {
    std::vector<std::pair<uint64_t, std::string>> waiting;
    const auto add_last = [&] {
      const auto last = waiting.back();
      waiting.pop_back();
      waiting.back() = {last.first, Join(waiting.back().second, last.second)};
    };
    for (uint64_t i = 0; i < 16; ++i) {
      if ((there >> i & 1) == 0) continue;
      while (waiting.size() > 1 && AddsUpBefore(waiting[waiting.size() - 2].first, waiting.back().first, i)) add_last();
      waiting.emplace_back(i, absl::StrCat(i));
    }
    while (waiting.size() > 1) add_last();
    ASSERT_EQ(waiting[0].second, without(0, 16, there, without)) << there;
  }
}

}  // namespace
}  // namespace belfry
