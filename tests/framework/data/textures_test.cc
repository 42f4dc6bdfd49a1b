#include "framework/data/textures.h"

#include <cstdlib>
#include <vector>

#include "framework/data/texture_image.h"
#include "tests/framework/data/data_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

TEST(Textures, WritesASetThatOpens) {
  TemporaryFolder folder;
  const absl::Status written = WriteTextures(folder / "new/set", {.training_images = 10'023, .test_images = 30});
  ASSERT_TRUE(written.ok()) << written;
  const auto set = OpenCifar10(folder / "new/set");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->train->size(), 10'023);
  EXPECT_EQ(set->test->size(), 30);
  EXPECT_EQ(set->train->spec().class_names[1], "checkered_disc");
  std::vector<int> counts(10);
  for (int64_t i = 0; i < set->test->size(); ++i) {
    Example example;
    ASSERT_TRUE(set->test->Read(i, {}, example).ok());
    ++counts[example.label];
  }
  EXPECT_THAT(counts, testing::Each(3));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "new/set")) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
}

TEST(Textures, DependsOnTheOptionsAlone) {
  TemporaryFolder folder;
  const auto bytes = [&](const std::string& name, uint64_t seed, int64_t images) {
    const absl::Status status =
        WriteTextures(folder / name, {.seed = seed, .training_images = images, .test_images = 5});
    EXPECT_TRUE(status.ok()) << status;
    return Contents(folder / (name + "/data_batch_1.bin"));
  };
  const std::string once = bytes("a", 7, 20);
  EXPECT_EQ(once, bytes("b", 7, 20));
  EXPECT_NE(once, bytes("c", 8, 20));
  EXPECT_EQ(once, bytes("d", 7, 31).substr(0, once.size()));
  EXPECT_NE(Contents(folder / "a/test_batch.bin"), once.substr(0, 5 * kCifar10RecordBytes));
}

// The images are the same on every machine and compiler; this changes only with kVersion.
TEST(Textures, HaveTheirKnownBytes) {
  uint64_t hash = 0xcbf29ce484222325;
  std::vector<uint8_t> image(kCifar10RecordBytes - 1);
  for (int64_t index = 0; index < 200; ++index) {
    DrawTextureImage(1, index, static_cast<int>(index % 10), image.data());
    for (uint8_t byte : image) hash = (hash ^ byte) * 0x100000001b3;
  }
  EXPECT_EQ(hash, 5004583378430257839u);
}

TEST(Textures, ReplacesItsOwnSetsOnly) {
  TemporaryFolder folder;
  const TextureOptions first = {.training_images = 20'001, .test_images = 4};
  const TextureOptions second = {.training_images = 12, .test_images = 4};
  ASSERT_TRUE(WriteTextures(folder.path(), first).ok());
  const auto time = std::filesystem::last_write_time(folder / "data_batch_1.bin");
  ASSERT_TRUE(WriteTextures(folder.path(), first).ok());
  EXPECT_EQ(std::filesystem::last_write_time(folder / "data_batch_1.bin"), time);
  ASSERT_TRUE(WriteTextures(folder.path(), second).ok());
  const auto set = OpenCifar10(folder.path());
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->train->size(), 12);

  std::filesystem::remove(folder / "textures.txt");
  const std::string before = Contents(folder / "data_batch_1.bin");
  ExpectError(WriteTextures(folder.path(), first), StatusCode::kFailedPrecondition, folder.path(), "textures.txt");
  EXPECT_EQ(Contents(folder / "data_batch_1.bin"), before);
}

TEST(Textures, NamesWhatCannotBeWritten) {
  TemporaryFolder folder;
  folder.Write("file", "x");
  ExpectError(WriteTextures(folder / "file/set"), StatusCode::kUnavailable, "file/set");
  ExpectError(WriteTextures(folder / "set", {.test_images = 0}), StatusCode::kInvalidArgument, "0 test images");
}

}  // namespace
}  // namespace belfry::data
