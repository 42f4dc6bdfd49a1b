// Steps of several CPU devices that are so short that the caller's thread runs them.
#include <set>
#include <thread>

#include "framework/base/steady_time.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ShortStep : public SessionFixture {
 protected:
  // Two counters that exchange their values, and the threads on which the hooks ran.
  void Build() {
    const Scope first = root_.NameScope("first").Device("/cpu:0"), second = root_.NameScope("second").Device("/cpu:1");
    a_ = Counter(first, "a", 1);
    b_ = Counter(second, "b", 10);
    const Output from_a = first.Add("Hook", {a_.value()}), from_b = second.Add("SecondHook", {b_.value()});
    step_ = ops::Group(root_, {ops::AssignAdd(first, a_, from_b), ops::AssignAdd(second, b_, from_a)});
    hook_ = second_hook_ = [this] {
      const MutexLock lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      return absl::OkStatus();
    };
  }
  void Run() { EXPECT_TRUE(session_->RunTarget(step_).ok()); }

  Variable a_, b_;
  const Node* step_ = nullptr;
  Mutex mutex_;
  std::set<std::thread::id> threads_;
};

TEST_F(ShortStep, RunsOnTheCallersThread) {
  Build();
  Open("cpu:2", {});
  Initialize();
  for (int i = 0; i < 5; ++i) Run();
  EXPECT_THAT(threads_, ElementsAre(std::this_thread::get_id()));
  // From 1 and 10 on, each becomes the sum of both, five times over.
  EXPECT_EQ(ValueOf(a_), 176.f);
  EXPECT_EQ(ValueOf(b_), 176.f);
}

TEST_F(ShortStep, GivesWhatThreadsGive) {
  Build();
  Open("cpu:2");
  Initialize();
  for (int i = 0; i < 5; ++i) Run();
  EXPECT_EQ(threads_.size(), 2u);
  EXPECT_EQ(threads_.count(std::this_thread::get_id()), 0u);
  EXPECT_EQ(ValueOf(a_), 176.f);
  EXPECT_EQ(ValueOf(b_), 176.f);
}

TEST_F(ShortStep, ErrorsNameTheNodeAndTheStepCanRunAgain) {
  Build();
  Open("cpu:2", {});
  Initialize();
  hook_ = [] { return absl::InternalError("on purpose"); };
  const absl::Status status = session_->RunTarget(step_);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("on purpose")));
  EXPECT_THAT(status.message(), HasSubstr("first/Hook"));
  EXPECT_THAT(status.message(), HasSubstr("/device:CPU:0"));
  hook_ = [] { return absl::OkStatus(); };
  Initialize();
  Run();
  EXPECT_EQ(ValueOf(a_), 11.f);
}

TEST_F(ShortStep, OneThatTurnsOutLongGetsThreads) {
  Build();
  Open("cpu:2", {});
  Initialize();
  const auto note = hook_;
  hook_ = [&] {
    const absl::Time end = SteadyNow() + absl::Milliseconds(2);
    while (SteadyNow() < end) {
    }
    return note();
  };
  for (int i = 0; i < 6; ++i) Run();
  EXPECT_EQ(threads_.size(), 3u);
  EXPECT_EQ(ValueOf(a_), 352.f);
}

}  // namespace
}  // namespace belfry
