// Many threads on one session; steps that fail, time out or are closed.
#include <thread>

#include "framework/base/steady_time.h"
#include "framework/runtime/run_gate.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kThreads = 8;

void InThreads(int threads, const std::function<void(int)>& body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(body, i);
  for (std::thread& thread : running) thread.join();
}

class ConcurrencyTest : public SessionFixture, public testing::WithParamInterface<int> {
 protected:
  std::string spec() const { return "cpu:" + std::to_string(GetParam()); }
  Scope Tower(int i) const {
    const std::string n = std::to_string(i % GetParam());
    return root_.NameScope("tower_" + n).Device("/cpu:" + n);
  }
  Output One(const Scope& scope) { return ops::Const(scope, 1.0f); }
};

TEST_P(ConcurrencyTest, ReadsGoSideBySide) {
  const Output x = ops::Placeholder(Tower(0), DType::kFloat32, {});
  const Variable v = Counter(Tower(1), "v", 3);
  const Output y = ops::Mul(Tower(1), x, v);
  Open(spec());
  Initialize();
  InThreads(kThreads, [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      const auto value = static_cast<float>(100 * thread + i);
      ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x, Tensor::Scalar(value)}}, {y}));
      ASSERT_EQ(result[0].scalar<float>(), 3 * value);
    }
  });
}

TEST_P(ConcurrencyTest, UpdatesAddUp) {
  const Variable v = Counter(Tower(0), "v", 0);
  const Output add = ops::AssignAdd(Tower(0), v, One(Tower(1)));
  Open(spec());
  Initialize();
  InThreads(kThreads, [&](int) {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(session_->RunTarget(add.node).ok());
  });
  EXPECT_EQ(ValueOf(v), kThreads * 100);
}

TEST_P(ConcurrencyTest, ReadersNeverSeeHalfAnUpdate) {
  const Variable a = Counter(Tower(0), "a", 0), b = Counter(Tower(1), "b", 0);
  const Node* both =
      ops::Group(root_, {ops::AssignAdd(Tower(0), a, One(Tower(0))), ops::AssignAdd(Tower(1), b, One(Tower(1)))});
  const Output difference = ops::Sub(Tower(0), a, b);
  Open(spec());
  Initialize();
  InThreads(kThreads, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      if (thread % 2 == 0) {
        ASSERT_TRUE(session_->RunTarget(both).ok());
        continue;
      }
      ASSERT_OK_AND_ASSIGN(auto result, session_->Run({difference}));
      ASSERT_EQ(result[0].scalar<float>(), 0);
      ASSERT_TRUE(session_->ReadVariable(a).ok());
    }
  });
  EXPECT_EQ(ValueOf(a), kThreads / 2 * 50);
}

TEST_P(ConcurrencyTest, AStepForEachThread) {
  const Variable v = Counter(Tower(0), "v", 0);
  const Output x = ops::Placeholder(Tower(1), DType::kFloat32, {});
  const Output add = ops::AssignAdd(Tower(0), v, x), square = ops::Square(Tower(1), x);
  Open(spec());
  Initialize();
  InThreads(kThreads, [&](int thread) {
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {}}}, {square}, {add.node}));
    const auto value = static_cast<float>(thread);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(step->Run({Tensor::Scalar(value)}).ok());
      ASSERT_EQ(step->fetched(0).scalar<float>(), value * value);
    }
  });
  EXPECT_EQ(ValueOf(v), 100 * kThreads * (kThreads - 1) / 2);
}

TEST_P(ConcurrencyTest, OneStepForAllThreads) {
  const Variable v = Counter(Tower(0), "v", 0);
  const Output add = ops::AssignAdd(Tower(0), v, One(Tower(1)));
  Open(spec());
  Initialize();
  const auto step = Prepare({}, {}, {add.node});
  std::atomic<int> succeeded{0};
  InThreads(kThreads, [&](int) {
    for (int i = 0; i < 100; ++i) {
      const absl::Status status = step->Run();
      if (status.ok()) {
        ++succeeded;
      } else {
        ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      }
    }
  });
  EXPECT_GE(succeeded, 1);
  EXPECT_EQ(ValueOf(v), succeeded);
}

TEST_P(ConcurrencyTest, CloseStopsWhatRuns) {
  std::atomic<bool> entered{false}, closed{false};
  hook_ = [&] {
    entered = true;
    while (!closed) std::this_thread::yield();
    return absl::OkStatus();
  };
  const Output slow = Tower(0).Add("Hook", {One(Tower(0))});
  const Output y = ops::Neg(Tower(1), ops::Square(Tower(0), slow));
  Open(spec());
  const auto step = Prepare({}, {y});
  absl::Status status;
  std::thread runner([&] { status = step->Run(); });
  while (!entered) std::this_thread::yield();
  session_->Close();
  closed = true;
  runner.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  const absl::Status after[] = {step->Run(), session_->Run({y}).status(), session_->RunTarget(y.node),
                                session_->Prepare({}, {y}).status()};
  for (const absl::Status& each : after) {
    EXPECT_EQ(each.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(each.message(), "Session has been closed.");
  }
  session_->Close();
}

TEST_P(ConcurrencyTest, CloseWhileManyRun) {
  const Variable v = Counter(Tower(0), "v", 0);
  const Output add = ops::AssignAdd(Tower(0), v, One(Tower(1)));
  Open(spec());
  Initialize();
  std::atomic<int> done{0};
  InThreads(kThreads, [&](int thread) {
    for (int i = 0;; ++i) {
      if (thread == 0 && i == 20) session_->Close();
      const absl::Status status = session_->RunTarget(add.node);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
      ++done;
      return;
    }
  });
  EXPECT_EQ(done, kThreads);
}

TEST_P(ConcurrencyTest, TheDeadline) {
  std::atomic<bool> sleeps{true};
  hook_ = [&] {
    if (sleeps) std::this_thread::sleep_for(std::chrono::milliseconds(120));
    return absl::OkStatus();
  };
  const Output slow = Tower(0).Add("Hook", {One(Tower(0))});
  const Output y = ops::Neg(Tower(1), slow);
  Open(spec(), {.timeout = absl::Milliseconds(60)});
  EXPECT_THAT(session_->Run({y}).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("the step exceeded its deadline")));
  sleeps = false;
  // On a loaded machine even a quick step is late now and then.
  absl::StatusOr<std::vector<Tensor>> result;
  for (int attempt = 0; attempt < 50; ++attempt) {
    result = session_->Run({y});
    if (result.ok()) break;
  }
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<float>(), -1);
}

TEST_P(ConcurrencyTest, TheDeadlineCountsWaitingForOtherSteps) {
  std::atomic<bool> entered{false}, go_on{false};
  hook_ = [&] {
    entered = true;
    while (!go_on) std::this_thread::yield();
    return absl::OkStatus();
  };
  const Variable v = Counter(Tower(0), "v", 0);
  const Output slow = ops::AssignAdd(Tower(0), v, Tower(0).Add("Hook", {One(Tower(0))}));
  const Output quick = ops::AssignAdd(Tower(0), v, One(Tower(0))), read = ops::Neg(Tower(0), v);
  Open(spec(), {.timeout = absl::Milliseconds(100)});
  Initialize();
  std::thread runner([&] { session_->RunTarget(slow.node).IgnoreError(); });
  while (!entered) std::this_thread::yield();
  for (const Output& waits : {quick, read}) {
    EXPECT_THAT(session_->Run({waits}).status(),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("waited for other steps")));
  }
  go_on = true;
  runner.join();
  const float before = ValueOf(v);
  absl::Status status;
  for (int attempt = 0; attempt < 50 && (attempt == 0 || !status.ok()); ++attempt) {
    status = session_->RunTarget(quick.node);
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(ValueOf(v), before + 1);
}

// A writer that gave up waiting for exclusive access must not keep out those that share.
TEST(RunGateTest, SharingGoesOnAfterAWriterGaveUp) {
  RunGate gate;
  ASSERT_TRUE(gate.Enter(/*alone=*/false, absl::InfiniteFuture()));
  EXPECT_FALSE(gate.Enter(/*alone=*/true, SteadyNow() + absl::Milliseconds(5)));
  std::thread other([&] {
    ASSERT_TRUE(gate.Enter(/*alone=*/false, absl::InfiniteFuture()));
    gate.Leave(/*alone=*/false);
  });
  other.join();
  gate.Leave(/*alone=*/false);
  EXPECT_TRUE(gate.Enter(/*alone=*/true, absl::InfiniteFuture()));
  EXPECT_FALSE(gate.Enter(/*alone=*/false, absl::InfinitePast()));
  gate.Leave(/*alone=*/true);
}

TEST_P(ConcurrencyTest, TheFirstErrorWins) {
  std::atomic<bool> fails{true};
  std::atomic<int> after{0};
  std::atomic<bool> failed{false};
  hook_ = [&] {
    if (!fails) return absl::OkStatus();
    failed = true;
    return absl::InvalidArgumentError("the bell is cracked");
  };
  second_hook_ = [&] {
    ++after;
    if (fails) {
      while (!failed) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return absl::OkStatus();
  };
  const Scope bad = Tower(0);
  const int line = __LINE__ + 1;
  const Output cracked = OpScope(bad.Named("bell")).Add("Hook", {One(bad)});
  constexpr int kLong = 200;
  Output other = One(Tower(1));
  if (GetParam() > 1) {
    for (int i = 0; i < kLong; ++i) other = Tower(1).Add("SecondHook", {other});
  }
  const Output sum = ops::Add(Tower(0), cracked, other);
  Open(spec());
  const auto status = session_->Run({sum}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("the bell is cracked"));
  EXPECT_THAT(message, HasSubstr("'tower_0/bell'"));
  EXPECT_THAT(message, HasSubstr("/job:localhost/replica:0/task:0/device:CPU:0"));
  EXPECT_THAT(message, HasSubstr("concurrency_test.cc:" + std::to_string(line)));
  EXPECT_LT(after, kLong / 2) << "the other tower went on";
  fails = false;
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({sum}));
  EXPECT_EQ(result[0].scalar<float>(), 2);
}

TEST_P(ConcurrencyTest, ErrorsAreIndependentOfEachOther) {
  std::atomic<int> calls{0};
  hook_ = [&] { return ++calls % 3 == 0 ? absl::InternalError("now and then") : absl::OkStatus(); };
  const Output y = ops::Neg(Tower(1), Tower(0).Add("Hook", {One(Tower(0))}));
  Open(spec());
  const auto step = Prepare({}, {y});
  for (int i = 1; i <= 60; ++i) ASSERT_EQ(step->Run().ok(), i % 3 != 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, ConcurrencyTest, testing::Values(1, 2),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace belfry
