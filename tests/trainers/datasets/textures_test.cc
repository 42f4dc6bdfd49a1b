#include "trainers/datasets/textures.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include "framework/base/parallel.h"
#include "framework/base/steady_time.h"
#include "framework/io/file_lock.h"
#include "tests/trainers/datasets/random_records.h"
#include "trainers/datasets/texture_image.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

// More images than fit in a file.
constexpr TextureOptions kTwoFiles = {.training_images = 10'023, .test_images = 30};

TEST(Textures, WritesASetThatOpensAndReplacesItsOwnSetsOnly) {
  TemporaryFolder temporary;
  const std::string folder = temporary / "new/set";
  ASSERT_EQ(WriteTextures(folder, kTwoFiles), absl::OkStatus());
  {
    ASSERT_OK_AND_ASSIGN(const auto set, OpenCifar10(folder));
    EXPECT_EQ(set.train->size(), 10'023);
    EXPECT_EQ(set.test->size(), 30);
    EXPECT_EQ(set.train->fields()[1].category_names[1], "checkered_disc");
    std::vector<int> counts(10);
    for (int64_t i = 0; i < set.test->size(); ++i) {
      ++counts[ReadExample(*set.test, i).value()[1].scalar<int32_t>()];
    }
    EXPECT_THAT(counts, testing::Each(3));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) EXPECT_NE(entry.path().extension(), ".tmp");

  const std::string first_file = folder + "/data_batch_1.bin";
  const auto time = std::filesystem::last_write_time(first_file);
  ASSERT_TRUE(WriteTextures(folder, kTwoFiles).ok());
  EXPECT_EQ(std::filesystem::last_write_time(first_file), time);
  ASSERT_TRUE(WriteTextures(folder, {.training_images = 12, .test_images = 4}).ok());
  ASSERT_OK_AND_ASSIGN(const auto set, OpenCifar10(folder));
  EXPECT_EQ(set.train->size(), 12);

  std::filesystem::remove(folder + "/textures.txt");
  const std::string before = Contents(first_file);
  ExpectError(WriteTextures(folder, kTwoFiles), StatusCode::kFailedPrecondition, folder, "textures.txt");
  EXPECT_EQ(Contents(first_file), before);
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

// The images are the same on every machine and compiler; only a new kVersion may change them.
TEST(Textures, HaveTheirKnownBytes) {
  uint64_t hash = 0xcbf29ce484222325;
  std::vector<uint8_t> image(kCifar10RecordBytes - 1);
  for (int64_t index = 0; index < 200; ++index) {
    DrawTextureImage(1, index, static_cast<int>(index % 10), image.data());
    for (uint8_t byte : image) hash = (hash ^ byte) * 0x100000001b3;
  }
  EXPECT_EQ(hash, 5004583378430257839u);
}

constexpr TextureOptions kSmall = {.training_images = 40, .test_images = 10};

int EntriesOf(const TemporaryFolder& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

void ExpectOpens(const std::string& place, const TextureOptions& options = kSmall) {
  ASSERT_OK_AND_ASSIGN(const auto set, OpenCifar10(place));
  EXPECT_EQ(set.train->size(), options.training_images);
  EXPECT_EQ(set.test->size(), options.test_images);
}

TEST(Textures, GoesOnAfterAProcessThatWasKilled) {
  TemporaryFolder folder;
  const TextureOptions large = {.training_images = 20'000, .test_images = 10};
  const pid_t child = fork();
  if (child == 0) {
    const ScopedParallelThreads alone(1);  // the child does not have the threads of its parent's loops
    _exit(WriteTextures(folder / "set", large).ok() ? 0 : 1);
  }
  const std::string beside = folder / ("set.tmp." + std::to_string(child));
  while (!std::filesystem::exists(beside) && !std::filesystem::exists(folder / "set")) usleep(1'000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(WriteTextures(folder / "set", kSmall), absl::OkStatus());
  ExpectOpens(folder / "set");
  EXPECT_EQ(EntriesOf(folder), 1) << "nothing is left beside the set";
}

TEST(Textures, ManyProcessesAndThreadsAtOnce) {
  TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      const ScopedParallelThreads alone(1);
      _exit(WriteTextures(folder / "set", kSmall).ok() && OpenCifar10(folder / "set").ok() ? 0 : 1);
    }
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(WriteTextures(folder / "set", kSmall), absl::OkStatus());
      ExpectOpens(folder / "set");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (pid_t child : children) {
    int ended = 0;
    waitpid(child, &ended, 0);
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(EntriesOf(folder), 1);
}

TEST(Textures, RepairsASetThatLostFiles) {
  TemporaryFolder folder;
  for (const char* lost : {"data_batch_1.bin", "test_batch.bin"}) {
    ASSERT_TRUE(WriteTextures(folder / "set", kSmall).ok());
    std::filesystem::remove(folder / ("set/" + std::string(lost)));
    EXPECT_EQ(WriteTextures(folder / "set", kSmall), absl::OkStatus());
    ExpectOpens(folder / "set");
  }
  // Leftovers of an interrupted run that wrote in place: no test images, no marker, and a file before its renaming.
  std::filesystem::remove(folder / "set/textures.txt");
  std::filesystem::rename(folder / "set/test_batch.bin", folder / "set/test_batch.bin.17.tmp");
  EXPECT_EQ(WriteTextures(folder / "set", kSmall), absl::OkStatus());
  ExpectOpens(folder / "set");
  EXPECT_FALSE(std::filesystem::exists(folder / "set/test_batch.bin.17.tmp"));
}

TEST(Textures, LeavesForeignDataAlone) {
  FreshRandom random;
  const std::string records = RandomRecords(random, 3);
  const std::pair<std::string, std::string> cases[] = {
      {"data_batch_1.bin", records}, {"notes.txt", "x"}, {"textures.txt", "my own textures"}, {"data_batch_1.bin", ""}};
  for (const auto& [name, bytes] : cases) {
    TemporaryFolder folder;
    std::filesystem::create_directory(folder / "set");
    folder.Write("set/" + name, bytes);
    ExpectError(WriteTextures(folder / "set", kSmall), StatusCode::kFailedPrecondition, folder / "set");
    ASSERT_OK_AND_ASSIGN(const auto place, PlaceTextures(folder / "set", kSmall));
    EXPECT_EQ(place, folder / "set_2");
    ExpectOpens(place);
    EXPECT_EQ(PlaceTextures(folder / "set", kSmall).value(), place);
    EXPECT_EQ(Contents(folder / ("set/" + name)), bytes);
    EXPECT_EQ(EntriesOf(folder), 2);
  }
  // A note beside a set of ours, and a foreign directory with the name of a stale one.
  TemporaryFolder folder;
  ASSERT_TRUE(WriteTextures(folder / "set", kSmall).ok());
  folder.Write("set/notes.txt", "x");
  const std::string before = Contents(folder / "set/data_batch_1.bin");
  ExpectError(WriteTextures(folder / "set", {.seed = 2}), StatusCode::kFailedPrecondition, "notes.txt");
  EXPECT_EQ(Contents(folder / "set/data_batch_1.bin"), before);
  std::filesystem::create_directory(folder / "new.tmp.17");
  folder.Write("new.tmp.17/notes.txt", "x");
  ASSERT_TRUE(WriteTextures(folder / "new", kSmall).ok());
  EXPECT_EQ(Contents(folder / "new.tmp.17/notes.txt"), "x");
}

TEST(Textures, WritesWhereALinkLeads) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "link");
  ASSERT_EQ(WriteTextures(folder / "link/", kSmall), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  ExpectOpens(folder / "real");
}

// The folder itself may be locked by anybody for reasons of their own.
TEST(Textures, ALockOfTheFolderAroundItDoesNotMatter) {
  TemporaryFolder folder;
  const int around = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(around, LOCK_EX), 0);
  EXPECT_EQ(WriteTextures(folder / "set", kSmall), absl::OkStatus());
  close(around);
}

TEST(Textures, NamesWhoKeepsItWaiting) {
  TemporaryFolder folder;
  TextureOptions options = kSmall;
  options.timeout = absl::Milliseconds(100);
  {
    const auto lock = io::FileLock::Wait(folder / "set.lock", SteadyNow());
    ASSERT_TRUE(lock.ok() && lock->held());
    ExpectError(WriteTextures(folder / "set", options), StatusCode::kDeadlineExceeded, folder / "set.lock",
                "process " + std::to_string(getpid()) + " on ");
  }
  EXPECT_EQ(EntriesOf(folder), 0);
  folder.Write("set.lock", "left behind by a process that was killed");
  EXPECT_TRUE(WriteTextures(folder / "set", options).ok());
  EXPECT_EQ(EntriesOf(folder), 1);
}

TEST(Textures, NamesWhatCannotBeWritten) {
  TemporaryFolder folder;
  folder.Write("file", "x");
  ExpectError(WriteTextures(folder / "file/set"), StatusCode::kUnavailable, "file/set");
  ExpectError(WriteTextures(folder / "set", {.test_images = 0}), StatusCode::kInvalidArgument, "0 test images");
}

}  // namespace
}  // namespace belfry::data
