// State of a checkpoint folder after the saving process is killed, or the disk fails, at each call that changes the
// disk.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/io/checkpoint_directory.h"
#include "tests/framework/io/failing_calls.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Eq;

constexpr CheckpointDirectoryOptions kOptions = {.keep_latest = 2, .keep_best = 1};

absl::Status Save(CheckpointDirectory& directory, int64_t step, double metric) {
  Tensor tensor(DType::kInt64, {1000});
  std::fill_n(tensor.data<int64_t>(), tensor.elements(), step);
  return directory.Save(step, {{"w", tensor}, {"v", Tensor::Scalar(step)}}, {},
                        Metric{"accuracy", metric, /*larger_is_better=*/true});
}

// Runs `body` in a child process. Returns its exit code, or minus the signal that killed it.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class CrashTest : public testing::Test {
 protected:
  // Saves steps 1 to 3, of which 1 is the best.
  void SetUp() override {
    fs::remove_all(path_);
    ASSERT_OK_AND_ASSIGN(auto directory, CheckpointDirectory::Open(path_, kOptions));
    for (int64_t step = 1; step <= 3; ++step) {
      ASSERT_EQ(Save(directory, step, 1.0 / static_cast<double>(step)), absl::OkStatus());
    }
  }
  // Saves step 4, the new best.
  absl::Status SaveOneMore() {
    auto directory = CheckpointDirectory::Open(path_, kOptions);
    return directory.ok() ? Save(*directory, 4, 2) : directory.status();
  }
  void ExpectWhole(const absl::StatusOr<Checkpoint>& checkpoint, int64_t step_before) {
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_THAT(checkpoint->step, AnyOf(Eq(step_before), Eq(4)));
    for (const NamedTensor& tensor : checkpoint->tensors) {
      EXPECT_EQ(tensor.value.data<int64_t>()[tensor.value.elements() - 1], checkpoint->step);
    }
  }
  // Checks that the links lead to whole checkpoints without any repair, and that every file named like a checkpoint is
  // one.
  void ExpectAllWhole() {
    ExpectWhole(LoadCheckpoint(path_ + "/latest"), 3);
    ExpectWhole(LoadCheckpoint(path_ + "/best"), 1);
    ExpectWhole(LoadCheckpointOfStep(path_, 3), 3);
    for (const CheckpointFile& file : ValueOf(ListCheckpoints(path_))) EXPECT_TRUE(LoadCheckpoint(file.path).ok());
  }
  bool HasLeftovers() {
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (absl::EndsWith(entry.path().string(), ".tmp")) return true;
    }
    return false;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "checkpoints";
};

TEST_F(CrashTest, AKillAtAnyCallLeavesWholeCheckpoints) {
  int calls = 0, with_leftovers = 0;
  for (bool died = true; died; calls += died) {
    SCOPED_TRACE(absl::StrCat("killed at call ", calls));
    SetUp();
    const int code = InChild([&] {
      const FailingCalls failing(calls, 0);
      if (!SaveOneMore().ok()) _exit(1);
    });
    died = code == FailingCalls::kDied;
    ASSERT_TRUE(died || code == 0) << code;
    ExpectAllWhole();
    with_leftovers += HasLeftovers();
    ASSERT_EQ(SaveOneMore(), absl::OkStatus());
    EXPECT_EQ(ValueOf(LoadCheckpoint(path_ + "/latest")).step, 4);
    EXPECT_EQ(ValueOf(LoadCheckpoint(path_ + "/best")).step, 4);
    EXPECT_EQ(ValueOf(ListCheckpoints(path_)).size(), 2u);
    EXPECT_FALSE(HasLeftovers());
  }
  EXPECT_GE(calls, 12);
  EXPECT_GE(with_leftovers, 6);
}

TEST_F(CrashTest, AFailureOfAnyCallLeavesWholeCheckpointsAndIsReported) {
  const struct {
    int error;
    absl::StatusCode code;
  } kFailures[] = {{ENOSPC, absl::StatusCode::kResourceExhausted},
                   {EROFS, absl::StatusCode::kPermissionDenied},
                   {EIO, absl::StatusCode::kUnavailable}};
  for (const auto& [error, code] : kFailures) {
    int errors = 0;
    bool met = true;
    for (int call = 0; met; ++call) {
      SCOPED_TRACE(absl::StrCat(std::strerror(error), " at call ", call));
      SetUp();
      absl::Status status;
      {
        const FailingCalls failing(call, error);
        status = SaveOneMore();
        met = failing.met();
      }
      if (!status.ok()) ExpectError(status, code, path_, std::strerror(error));
      errors += !status.ok();
      ExpectAllWhole();
      EXPECT_FALSE(HasLeftovers());
    }
    EXPECT_GE(errors, 11);
  }
}

TEST_F(CrashTest, AFullDiskIsAnError) {
  const int code = InChild([&] {
    // A write that would grow a file beyond this fails as on a full disk, in the middle of the data.
    const rlimit limit = {5000, 5000};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = SaveOneMore();
    _exit(absl::IsResourceExhausted(status) && absl::StrContains(status.message(), path_) ? 3 : 1);
  });
  EXPECT_EQ(code, 3);
  EXPECT_EQ(ValueOf(LoadCheckpoint(path_ + "/latest")).step, 3);
  ExpectAllWhole();
  EXPECT_FALSE(HasLeftovers());
}

TEST_F(CrashTest, AKillInTheMiddleOfTheDataLeavesWholeCheckpoints) {
  const int code = InChild([&] {
    const rlimit no_core = {0, 0}, limit = {5000, 5000};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &limit);
    SaveOneMore().IgnoreError();
  });
  EXPECT_EQ(code, -SIGXFSZ);
  EXPECT_TRUE(HasLeftovers());
  ExpectAllWhole();
}

}  // namespace
}  // namespace belfry::io
