#include "framework/io/file.h"

#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(File, IsWrittenInPiecesAndReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "file", large(3 << 20, 'x');
  ASSERT_EQ(WriteFile(path, {"one ", "", large, " two"}), absl::OkStatus());
  EXPECT_EQ(ValueOf(ReadFile(path)), absl::StrCat("one ", large, " two"));
  ASSERT_EQ(WriteFile(path, "shorter"), absl::OkStatus());
  EXPECT_EQ(ValueOf(ReadFile(path)), "shorter");
  ASSERT_EQ(WriteFile(path, ""), absl::OkStatus());
  EXPECT_EQ(ValueOf(ReadFile(path)), "");
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("file"));
}

TEST(File, OneWithoutASizeIsReadToItsEnd) {
  const std::string text = ValueOf(ReadFile("/proc/self/status"));
  EXPECT_THAT(text, testing::StartsWith("Name:"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(File, ANameThatIsTakenIsPassedOver) {
  const TemporaryFolder folder;
  const std::string leftover = absl::StrCat("file.", getpid(), ".0.tmp");
  folder.Write(leftover, "of a process before");
  ASSERT_EQ(WriteFile(folder / "file", "new"), absl::OkStatus());
  EXPECT_EQ(Contents(folder / "file"), "new");
  EXPECT_EQ(Contents(folder / leftover), "of a process before");
}

TEST(File, OnlyRegularOnesAreRead) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ExpectError(ReadFile(folder / "pipe").status(), StatusCode::kInvalidArgument, folder / "pipe", "is a pipe");
  ExpectError(ReadFile("/dev/zero").status(), StatusCode::kInvalidArgument, "/dev/zero", "is a device");
  fs::create_symlink("itself", folder / "itself");
  ExpectError(ReadFile(folder / "itself").status(), StatusCode::kInvalidArgument, folder / "itself", "symbolic links");
}

TEST(File, ErrorsNameThePathAndTheReason) {
  const TemporaryFolder folder;
  folder.Write("file", "bytes");
  ExpectError(ReadFile(folder / "none").status(), StatusCode::kNotFound, folder / "none", "No such file");
  ExpectError(ReadFile(folder.path()).status(), StatusCode::kInvalidArgument, folder.path(), "is a folder");
  ExpectError(WriteFile(folder / "none/file", "x"), StatusCode::kNotFound, folder / "none/file", "No such file");
  ExpectError(WriteFile(folder / "file/below", "x"), StatusCode::kNotFound, folder / "file/below", "Not a directory");
  ExpectError(WriteFile("/proc/file", "x"), StatusCode::kNotFound, "/proc/file");
  fs::create_directory(folder / "taken");
  ExpectError(WriteFile(folder / "taken", "x"), StatusCode::kUnavailable, folder / "taken", "Is a directory");
  EXPECT_THAT(NamesIn(folder.path()), testing::UnorderedElementsAre("file", "taken"));
}

TEST(File, ShortagesSayWhatToRaise) {
  const auto error = [](int number) { return SystemError("/tmp/file", "cannot write", number); };
  for (const int number : {EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT, EFBIG}) {
    EXPECT_TRUE(absl::IsResourceExhausted(error(number))) << error(number);
  }
  EXPECT_THAT(error(EMFILE).message(), testing::HasSubstr("; raise the limit on open files (ulimit -n)"));
  EXPECT_THAT(error(EFBIG).message(), testing::HasSubstr("; raise the limit on file sizes (ulimit -f)"));
  EXPECT_THAT(std::string(error(ENOSPC).message()),
              testing::ContainsRegex(
                  "No space left on device; [0-9]+ bytes are free there(, so a quota may have been reached)?$"));
  // The room of the file system that a device's name is in says nothing about the device.
  EXPECT_EQ(SystemError("/dev/full", "cannot write", ENOSPC).message(),
            "/dev/full: cannot write: No space left on device");
}

TEST(File, FoldersAreListed) {
  const TemporaryFolder folder;
  EXPECT_THAT(*ListFolder(folder.path()), testing::IsEmpty());
  folder.Write("a", "1");
  folder.Write(".b", "2");
  EXPECT_THAT(*ListFolder(folder.path()), testing::UnorderedElementsAre("a", ".b"));
  EXPECT_TRUE(absl::IsNotFound(ListFolder(folder / "c").status()));
  EXPECT_TRUE(absl::IsNotFound(ListFolder(folder / "a").status()));
}

TEST(File, PartsAreReadAndNotBeyondTheEnd) {
  const TemporaryFolder folder;
  folder.Write("file", "0123456789");
  ASSERT_OK_AND_ASSIGN(auto file, InputFile::Open(folder / "file"));
  EXPECT_EQ(file.size(), 10);
  std::string part(4, ' ');
  ASSERT_EQ(file.Read(6, part.data(), 4), absl::OkStatus());
  EXPECT_EQ(part, "6789");
  ExpectError(file.Read(7, part.data(), 4), StatusCode::kOutOfRange, folder / "file", "byte 10", "bytes up to 11");
}

TEST(File, APipeIsWrittenInPlace) {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = Contents(path); });
  EXPECT_EQ(WriteFile(path, {"one ", "two"}), absl::OkStatus());
  reader.join();
  EXPECT_EQ(received, "one two");
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("pipe"));
  EXPECT_EQ(WriteFile("/dev/belfry_nothing", "x").code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists("/dev/belfry_nothing"));
}

TEST(File, WritingFollowsLinks) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "runs");
  fs::create_symlink("runs/metrics", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  for (const char* text : {"new", "old"}) {  // the file does not exist at first
    ASSERT_EQ(WriteFile(folder / "absolute", text), absl::OkStatus());
    EXPECT_EQ(*ReadFile(folder / "runs/metrics"), text);
    EXPECT_TRUE(fs::is_symlink(folder / "absolute") && fs::is_symlink(folder / "relative"));
    EXPECT_FALSE(fs::is_symlink(folder / "runs/metrics"));
  }
  EXPECT_THAT(NamesIn(folder / "runs"), testing::ElementsAre("metrics"));
  fs::create_symlink("itself", folder / "itself");
  ExpectError(WriteFile(folder / "itself", "x"), StatusCode::kInvalidArgument, "itself", "symbolic links");
  fs::create_symlink("nowhere/file", folder / "lost");
  ExpectError(WriteFile(folder / "lost", "x"), StatusCode::kNotFound, folder / "nowhere/file", "No such file");
}

TEST(File, ReadingStopsAtALimit) {
  const TemporaryFolder folder;
  ASSERT_EQ(WriteFile(folder / "file", "12345"), absl::OkStatus());
  EXPECT_EQ(*ReadFile(folder / "file", 5), "12345");
  ExpectError(ReadFile(folder / "file", 4).status(), StatusCode::kResourceExhausted, folder / "file",
              "has 5 bytes, more than the limit of 4");
  EXPECT_EQ(ReadFile("/proc/self/status", 10).status().code(), StatusCode::kResourceExhausted) << "its size is 0";
}

TEST(File, ALinkIsReplaced) {
  const TemporaryFolder folder;
  for (const char* target : {"a", "b", "b"}) {
    ASSERT_EQ(ReplaceLink(folder / "link", target), absl::OkStatus());
    EXPECT_EQ(fs::read_symlink(folder / "link"), target);
  }
  EXPECT_THAT(NamesIn(folder.path()), testing::ElementsAre("link"));
  EXPECT_EQ(RemoveFile(folder / "link"), absl::OkStatus());
  EXPECT_EQ(RemoveFile(folder / "link"), absl::OkStatus());
  EXPECT_THAT(NamesIn(folder.path()), testing::IsEmpty());
}

TEST(File, LeftoversAreKnownByTheirNames) {
  EXPECT_EQ(BaseOfLeftover("a.b.12.0.tmp"), "a.b");
  EXPECT_EQ(BaseOfLeftover("latest.3.14.tmp"), "latest");
  for (const char* name :
       {"", ".tmp", "a.tmp", "a.1.tmp", "a..1.tmp", "a.1..tmp", "a.1.2", "a.1.x.tmp", "a.1.2.tmp2"}) {
    EXPECT_EQ(BaseOfLeftover(name), "") << name;
  }
}

}  // namespace
}  // namespace belfry::io
