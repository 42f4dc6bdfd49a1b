#include "ops/gpu/autotune.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

class AutotuneCacheTest : public testing::Test {
 protected:
  std::string Path() const { return folder_ / "deep/autotune.txt"; }
  void Write(const std::string& text) { folder_.Write("deep/autotune.txt", text); }

  const TemporaryFolder folder_;
};

TEST_F(AutotuneCacheTest, RemembersChoices) {
  AutotuneCache cache("");
  EXPECT_EQ(cache.Find("a", 3), -1);
  cache.Add("a", 3, 2);
  cache.Add("b", 5, 0);
  EXPECT_EQ(cache.Find("a", 3), 2);
  EXPECT_EQ(cache.Find("b", 5), 0);
  EXPECT_EQ(cache.Find("a", 4), -1);  // among another number of candidates
}

TEST_F(AutotuneCacheTest, KeepsThemOnDisk) {
  AutotuneCache first(Path()), second(Path());
  first.Add("conv x1x2 \tf3", 8, 7);
  second.Add("matmul", 2, 1);
  first.Add("matmul", 2, 0);
  AutotuneCache later(Path());
  EXPECT_EQ(later.Find("conv x1x2 \tf3", 8), 7);
  EXPECT_EQ(later.Find("matmul", 2), 0);  // the last line counts
}

TEST_F(AutotuneCacheTest, FindsWhatOthersAddLater) {
  AutotuneCache first(Path()), second(Path());
  first.Add("conv", 8, 7);
  EXPECT_EQ(second.Find("conv", 8), 7);
  second.Add("matmul", 2, 1);
  first.Add("pool", 3, 0);
  EXPECT_EQ(first.Find("matmul", 2), 1);
  EXPECT_EQ(second.Find("pool", 3), 0);
  EXPECT_EQ(second.Find("conv", 9), -1);
}

TEST_F(AutotuneCacheTest, IgnoresWhatIsNoChoice) {
  Write("1\t2\tgood\n\n\t\t\n2\t2\ttoo large\n-1\t2\tnegative\n0\t0\tnone\nx\t2\tword\n1\t2\n1 2 spaces\n" +
        std::string("\0\xff\t", 3) + "\n99999999999999\t2\tlong\n0\t3\tcut");
  AutotuneCache cache(Path());
  EXPECT_EQ(cache.Find("good", 2), 1);
  EXPECT_EQ(cache.Find("cut", 3), 0);
  for (const char* key : {"", "too large", "negative", "word", "spaces", "long"}) {
    for (int count : {0, 2}) EXPECT_EQ(cache.Find(key, count), -1) << key;
  }
}

TEST_F(AutotuneCacheTest, GoesOnAfterALineThatWasCut) {
  Write("1\t2\tmatm");
  AutotuneCache cache(Path());
  cache.Add("conv", 4, 3);
  cache.Add("matmul", 2, 0);
  AutotuneCache later(Path());
  EXPECT_EQ(later.Find("conv", 4), 3);
  EXPECT_EQ(later.Find("matmul", 2), 0);
}

TEST_F(AutotuneCacheTest, KeepsWholeLinesOfAFileThatWasCutAnywhere) {
  const std::string text = "1\t2\tfirst\n0\t3\tsecond\n2\t3\tthird\n";
  const std::vector<std::pair<std::string, int>> choices = {{"first", 1}, {"second", 0}, {"third", 2}};
  for (size_t size = 0; size <= text.size(); ++size) {
    Write(text.substr(0, size));
    AutotuneCache cache(Path());
    for (const auto& [key, index] : choices) {
      const int count = key == "first" ? 2 : 3;
      const bool whole = size >= text.find(key) + key.size();
      EXPECT_EQ(cache.Find(key, count), whole ? index : -1) << key << " of " << size << " bytes";
    }
  }
}

TEST_F(AutotuneCacheTest, SurvivesAnyBytes) {
  constexpr absl::string_view kLikely("0123-\t\t\t\n\n\r a\0\xff", 15);
  std::minstd_rand random(1);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t size = random() % 400; text.size() < size;) {
      text += round % 2 == 0 ? kLikely[random() % kLikely.size()] : static_cast<char>(random() % 256);
    }
    Write(text);
    AutotuneCache cache(Path());
    for (const char* key : {"", "a", " ", "0", "\t", "\xff"}) {
      for (const int count : {-1, 0, 1, 2, 3, 12}) {
        const int index = cache.Find(key, count);
        EXPECT_TRUE(index >= -1 && index < std::max(count, 0)) << index << " of " << count;
        found += index >= 0;
      }
    }
    cache.Add("a", 12, 11);
    EXPECT_EQ(cache.Find("a", 12), 11);
  }
  EXPECT_GT(found, 0) << "no file held a choice by chance, so nothing was tried";
}

TEST_F(AutotuneCacheTest, DoesWithoutAFileThatCannotBeWritten) {
  AutotuneCache cache("/dev/null/autotune.txt");
  cache.Add("a", 2, 1);
  EXPECT_EQ(cache.Find("a", 2), 1);
}

}  // namespace
}  // namespace belfry::ops
