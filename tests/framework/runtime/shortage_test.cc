// Sessions for which the system has too little memory or too few threads.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "framework/base/memory/out_of_memory.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRow = int64_t{1} << 27;  // elements of 512 MiB in float32

class ShortageTest : public SessionFixture {
 protected:
  // The feeds of a step that needs about `bytes`, which is never run.
  std::vector<FeedSpec> LargeFeeds(size_t bytes) {
    std::vector<FeedSpec> feeds;
    std::vector<Output> sums;
    for (size_t made = 0; made < bytes; made += kRow * sizeof(float)) {
      const Output x = ops::Placeholder(root_, DType::kFloat32, {kRow});
      feeds.push_back({x, {kRow}});
      sums.push_back(ops::Sum(root_, x));
    }
    sum_ = ops::AddN(root_, sums);
    return feeds;
  }

  Output sum_;
};

// The system counts memory as used once it is written.
TEST_F(ShortageTest, PreparedStepsCountBeforeTheyRun) {
  Open("cpu:1");
  const size_t most = FindAvailableMemory().bytes / 100 * 55;
  const std::vector<FeedSpec> feeds = LargeFeeds(most);
  auto first = session_->Prepare(feeds, {sum_});
  if (absl::IsResourceExhausted(first.status())) GTEST_SKIP() << "others use the memory: " << first.status();
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string message(session_->Prepare(feeds, {sum_}).status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("The step needs "), HasSubstr(" MiB of other steps that are prepared"),
                             HasSubstr("\nMiB   ")));
  first->reset();
  EXPECT_EQ(session_->Prepare(feeds, {sum_}).status(), absl::OkStatus());
}

TEST_F(ShortageTest, AReservedStepGivesWayToAnother) {
  Open("cpu:1");
  const size_t most = FindAvailableMemory().bytes / 100 * 55;
  const std::vector<FeedSpec> feeds = LargeFeeds(most);
  const absl::Status reserved = session_->Reserve(feeds, {sum_});
  if (absl::IsResourceExhausted(reserved)) GTEST_SKIP() << "others use the memory: " << reserved;
  EXPECT_EQ(reserved, absl::OkStatus());
  EXPECT_EQ(session_->Reserve(feeds, {sum_}), absl::OkStatus()) << "it is there";
  EXPECT_EQ(session_->Prepare(feeds, {sum_}).status(), absl::OkStatus());
}

// Of root, the system limits no threads.
bool RefuseThreads() {
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return false;
  const rlimit limit{.rlim_cur = 1, .rlim_max = 1};
  return setrlimit(RLIMIT_NPROC, &limit) == 0;
}

TEST_F(ShortageTest, AThreadThatCannotStartIsNoMatterOfMemory) {
  const Output x = ops::Placeholder(root_.Device("/cpu:0"), DType::kFloat32, {2});
  const Output y = ops::Square(root_.Device("/cpu:0"), x), z = ops::Square(root_.Device("/cpu:1"), y);
  const auto limited = [&] {
    Open("cpu:2");
    if (!RefuseThreads()) std::_Exit(2);
    const absl::Status status = session_->Prepare({{x, {2}}}, {y, z}).status();
    std::fprintf(stderr, "%s", std::string(status.message()).c_str());
    std::_Exit(absl::IsResourceExhausted(status) ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0),
              AllOf(HasSubstr("Cannot start a thread for "), Not(HasSubstr("parameters"))));
}

}  // namespace
}  // namespace belfry
