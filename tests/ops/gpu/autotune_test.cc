#include "ops/gpu/autotune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace belfry::ops {
namespace {

namespace fs = std::filesystem;

class AutotuneCacheTest : public testing::Test {
 protected:
  AutotuneCacheTest() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("belfry_autotune_") + test.name());
    fs::remove_all(folder_);
  }
  ~AutotuneCacheTest() override { fs::remove_all(folder_); }
  std::string Path() const { return (folder_ / "deep" / "autotune.txt").string(); }
  void Write(const std::string& text) {
    fs::create_directories(fs::path(Path()).parent_path());
    std::ofstream(Path(), std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(AutotuneCacheTest, RemembersChoices) {
  AutotuneCache cache("");
  EXPECT_EQ(cache.Find("a", 3), -1);
  cache.Add("a", 3, 2);
  cache.Add("b", 5, 0);
  EXPECT_EQ(cache.Find("a", 3), 2);
  EXPECT_EQ(cache.Find("b", 5), 0);
  EXPECT_EQ(cache.Find("a", 4), -1);  // among other candidates
}

TEST_F(AutotuneCacheTest, KeepsThemOnDisk) {
  AutotuneCache first(Path()), second(Path());
  first.Add("conv x1x2 \tf3", 8, 7);
  second.Add("matmul", 2, 1);
  first.Add("matmul", 2, 0);
  const AutotuneCache later(Path());
  EXPECT_EQ(later.Find("conv x1x2 \tf3", 8), 7);
  EXPECT_EQ(later.Find("matmul", 2), 0);  // the last one counts
}

TEST_F(AutotuneCacheTest, IgnoresWhatIsNoChoice) {
  Write("1\t2\tgood\n\n\t\t\n2\t2\ttoo large\n-1\t2\tnegative\n0\t0\tnone\nx\t2\tword\n1\t2\n1 2 spaces\n" +
        std::string("\0\xff\t", 3) + "\n99999999999999\t2\tlong\n0\t3\tcut");
  const AutotuneCache cache(Path());
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
  const AutotuneCache later(Path());
  EXPECT_EQ(later.Find("conv", 4), 3);
  EXPECT_EQ(later.Find("matmul", 2), 0);
}

TEST_F(AutotuneCacheTest, DoesWithoutAFileThatCannotBeWritten) {
  AutotuneCache cache("/dev/null/autotune.txt");
  cache.Add("a", 2, 1);
  EXPECT_EQ(cache.Find("a", 2), 1);
}

}  // namespace
}  // namespace belfry::ops
