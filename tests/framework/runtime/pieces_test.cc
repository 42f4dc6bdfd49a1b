// Steps that are replayed in pieces, because their collectives cannot be captured.
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/runtime/uncaptured_collective.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kTowers = 2;

// Kernels of a tower before, between and after its collectives.
struct Lengths {
  int before = 5, between = 3, after = 4;
};

enum class Mode { kPlain, kWhole, kPieces };

// Two towers, each with kernels, a mean, kernels, a sum, and kernels, the last of which updates a variable.
class Pieces : public testing::Test {
 protected:
  Pieces() {
    // On GPUs: passes its input on once `closed_` is false.
    AddUnary("Gate", [this](const float* from, float* to, size_t n) {
      ++arrived_;
      while (closed_) std::this_thread::yield();
      std::memcpy(to, from, n * sizeof(float));
    });
    AddFakeGpuKernels(registry_);
    // Waits for its stream, which no captured kernel may.
    registry_.Add({.name = "Waits",
                   .inputs = {{.name = "x"}},
                   .outputs = {{.name = "y"}},
                   .types = {{"T", kWideFloatTypes}},
                   .shape = SameShape,
                   .not_differentiable = true,
                   .stateful = true,
                   .kernels = {{"GPU", DType::kFloat32, [this](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                                  return Kernel{[this, bytes = spec.outputs[0].bytes()](const KernelContext& at) {
                                    RETURN_IF_ERROR(at.stream->Synchronize());
                                    return at.stream->Copy(at.outputs[0], devices_.device(1), at.inputs[0],
                                                           devices_.device(1), bytes);
                                  }};
                                }}}});
  }

  static absl::StatusOr<std::vector<Shape>> SameShape(const ShapeArgs& args) {
    return std::vector<Shape>{args.inputs[0]};
  }
  void AddUnary(const std::string& name, std::function<void(const float*, float*, size_t)> function) {
    registry_.Add({.name = name,
                   .inputs = {{.name = "x"}},
                   .outputs = {{.name = "y"}},
                   .types = {{"T", kWideFloatTypes}},
                   .shape = SameShape,
                   .not_differentiable = true,
                   .stateful = true,
                   .kernels = {{"CPU", DType::kFloat32, [function](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                                  const auto n = static_cast<size_t>(spec.outputs[0].shape.elements());
                                  return Kernel{[function, n](const KernelContext& at) {
                                    function(at.input<float>(0), at.output<float>(0), n);
                                    return absl::OkStatus();
                                  }};
                                }}}});
  }

  static Output Chain(const Scope& scope, Output x, int length) {
    for (int i = 0; i < length; ++i) x = i % 2 == 0 ? ops::Sin(scope, x) : ops::Tanh(scope, x);
    return x;
  }

  // `op`: one more, after the first kernels of tower 0; empty: none.
  void Open(Mode mode, const std::string& op = "", absl::Duration timeout = absl::InfiniteDuration(),
            const Lengths& lengths = {}) {
    steps_.clear();
    session_.reset();
    feeds_.clear();
    fetches_.clear();
    targets_.clear();
    totals_.clear();
    graph_ = std::make_unique<Graph>(registry_);
    devices_ = OpenFakeGpus(kTowers);
    for (int r = 0; r < kTowers; ++r) {
      const Scope tower = Scope(*graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", r));
      const Output x = ops::Placeholder(tower, DType::kFloat32, {Shape::kUnknown});
      Output y = Chain(tower, x, lengths.before);
      if (r == 0 && op == "CheckNumerics") y = ops::CheckNumerics(tower, y, "the input");
      if (r == 0 && (op == "Gate" || op == "Waits")) y = tower.Add(op, {y});
      const Output weight = ops::Const(tower, 1.0f + static_cast<float>(r));
      y = ops::AllReduceMean(tower, {.group = "mean", .rank = r, .size = kTowers}, weight, {y})[0];
      y = Chain(tower, y, lengths.between);
      y = ops::AllReduceSum(tower, {.group = "sum", .rank = r, .size = kTowers}, {y})[0];
      y = Chain(tower, y, lengths.after);
      totals_.push_back(GetVariable(tower, absl::StrCat("total_", r), {}, ZerosInitializer()));
      targets_.push_back(ops::AssignAdd(tower, totals_.back(), ops::Sum(tower, y)).node);
      feeds_.push_back(x);
      fetches_.push_back(y);
    }
    const auto collectives = [this, mode](CollectiveSpec spec) -> absl::StatusOr<std::unique_ptr<Collective>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Collective> local, MakeFakeGpuCollective(std::move(spec)));
      if (mode == Mode::kWhole) return local;
      return std::make_unique<UncapturedCollective>(std::move(local), fail_in_);
    };
    ASSERT_OK_AND_ASSIGN(
        session_, Session::Create(*graph_, devices_,
                                  {.timeout = timeout, .collectives = collectives, .replay = mode != Mode::kPlain}));
    ASSERT_EQ(session_->RunTarget(InitializeVariables(Scope(*graph_))), absl::OkStatus());
    Prepare(17);
  }
  // Adds a step for feeds of `n` elements.
  void Prepare(int64_t n) {
    std::vector<FeedSpec> specs;
    for (const Output& feed : feeds_) specs.push_back({feed, {n}});
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare(specs, fetches_, targets_));
    steps_.push_back({n, std::move(step)});
  }
  static std::vector<Tensor> Batch(int64_t n, int number) {
    std::minstd_rand random(TestSeed() + number);
    std::vector<Tensor> batch;
    for (int r = 0; r < kTowers; ++r) {
      batch.emplace_back(DType::kFloat32, Shape{n});
      for (int64_t i = 0; i < n; ++i) batch[r].data<float>()[i] = static_cast<float>(random() % 1000) / 500 - 1;
    }
    return batch;
  }
  absl::Status Start(int number, size_t step = 0) { return prepared(step).Run(Batch(steps_[step].first, number)); }
  absl::Status Run(int number, size_t step = 0) {
    RETURN_IF_ERROR(Start(number, step));
    return prepared(step).Wait();
  }
  void ExpectToRun(int number) { EXPECT_EQ(Run(number), absl::OkStatus()); }
  void RunUntilReplayed() {
    for (int i = 0; i < 3; ++i) ExpectToRun(i);
    ASSERT_TRUE(prepared().replays());
  }
  PreparedStep& prepared(size_t step = 0) { return *steps_[step].second; }
  std::vector<Tensor> Fetched(size_t step = 0) {
    std::vector<Tensor> fetched;
    for (size_t i = 0; i < fetches_.size(); ++i) fetched.push_back(prepared(step).fetched(static_cast<int>(i)));
    return fetched;
  }
  FakeGpuLaunches Launches(int gpu) { return LaunchesOn(devices_.device(1 + gpu)); }

  std::atomic<bool> closed_{false};
  std::atomic<int> arrived_{0}, fail_in_{0};
  OpRegistry registry_ = BuiltinOps();
  std::unique_ptr<Graph> graph_;
  DeviceSet devices_;
  std::vector<Output> feeds_, fetches_;
  std::vector<const Node*> targets_;
  std::vector<Variable> totals_;
  std::unique_ptr<Session> session_;
  std::vector<std::pair<int64_t, std::unique_ptr<PreparedStep>>> steps_;  // with the size of their feeds
};

void ExpectSameBits(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(SameBits(actual[i], expected[i])) << i;
}

// Feeds of several shapes take turns, each with a plan of its own.
TEST_F(Pieces, GiveTheBitsOfPlainAndOfWholeRuns) {
  std::vector<std::vector<Tensor>> expected;
  for (const absl::Duration timeout : {absl::InfiniteDuration(), absl::Seconds(60)}) {
    for (const Mode mode : {Mode::kPlain, Mode::kWhole, Mode::kPieces}) {
      SCOPED_TRACE(absl::StrCat("mode ", static_cast<int>(mode), ", timeout ", absl::FormatDuration(timeout)));
      Open(mode, "", timeout);
      Prepare(1);
      Prepare(301);
      std::vector<std::vector<Tensor>> results;
      for (int i = 0; i < 24; ++i) {
        const size_t step = i % 5 % 3;
        ASSERT_EQ(Start(i, step), absl::OkStatus());
        if (i % 4 == 3) results.push_back(Fetched(step));
      }
      for (size_t step = 0; step < 3; ++step) EXPECT_EQ(prepared(step).replays(), mode != Mode::kPlain);
      for (const Variable& total : totals_) results.push_back({*session_->ReadVariable(total)});
      if (expected.empty()) expected = results;
      ASSERT_EQ(results.size(), expected.size());
      for (size_t i = 0; i < results.size(); ++i) ExpectSameBits(results[i], expected[i]);
    }
  }
}

TEST_F(Pieces, AreGraphsAndTheRestIsLaunchedOneByOne) {
  Open(Mode::kPlain);
  ExpectToRun(0);
  for (int gpu : {0, 1}) {
    const FakeGpuLaunches before = Launches(gpu);
    ExpectToRun(1);
    EXPECT_EQ(Launches(gpu).kernels - before.kernels, 5 + 3 + 4 + 2) << "with the sum and the update";
    EXPECT_EQ(Launches(gpu).graphs, 0);
  }
  Open(Mode::kPieces);
  RunUntilReplayed();
  for (int gpu : {0, 1}) {
    const FakeGpuLaunches before = Launches(gpu);
    ExpectToRun(1);
    EXPECT_EQ(Launches(gpu).graphs - before.graphs, 2);
    EXPECT_EQ(Launches(gpu).kernels - before.kernels, 3) << "too few for a graph";
  }
  Open(Mode::kWhole);
  RunUntilReplayed();
  const FakeGpuLaunches before = Launches(0);
  ExpectToRun(1);
  EXPECT_EQ(Launches(0).graphs - before.graphs, 1);
  EXPECT_EQ(Launches(0).kernels - before.kernels, 0);
  EXPECT_EQ(Launches(1).graphs, 0) << "one graph holds both GPUs";
}

TEST_F(Pieces, OfFewKernelsAreNotCaptured) {
  Open(Mode::kPieces, "", absl::InfiniteDuration(), {3, 3, 1});
  for (int i = 0; i < 6; ++i) ExpectToRun(i);
  EXPECT_FALSE(prepared().replays());
  EXPECT_EQ(Launches(0).graphs, 0);
}

// Two runs kernel by kernel, and then pieces again.
TEST_F(Pieces, ThatAreNotLaunchedAreCapturedAgain) {
  Open(Mode::kPieces);
  RunUntilReplayed();
  for (int gpu : {1, 0}) {
    ExpectToRun(7);
    const std::vector<Tensor> expected = Fetched();
    FailNextGraph(devices_.device(1 + gpu));
    EXPECT_THAT(Run(7), StatusIs(absl::StatusCode::kInternal,
                                 AllOf(HasSubstr("the graph was not launched"), HasSubstr(absl::StrCat("GPU:", gpu)))));
    const FakeGpuLaunches before = Launches(gpu);
    for (int i = 0; i < 2; ++i) {
      ExpectToRun(7);
      ExpectSameBits(Fetched(), expected);
      EXPECT_FALSE(prepared().replays());
      EXPECT_EQ(Launches(gpu).graphs, before.graphs);
    }
    ExpectToRun(7);
    ExpectSameBits(Fetched(), expected);
    EXPECT_TRUE(prepared().replays());
    EXPECT_EQ(Launches(gpu).graphs, before.graphs + 2);
  }
}

TEST_F(Pieces, ReportErrorsOfTheirKernels) {
  Open(Mode::kPieces, "CheckNumerics");
  RunUntilReplayed();
  ExpectToRun(7);
  const std::vector<Tensor> expected = Fetched();
  std::vector<Tensor> batch = Batch(17, 7);
  batch[0].data<float>()[3] = NAN;
  ASSERT_TRUE(prepared().Run(batch).ok());
  EXPECT_THAT(prepared().Wait(),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("the input"), HasSubstr("GPU:0"))));
  ExpectToRun(7);
  ExpectSameBits(Fetched(), expected);
  EXPECT_TRUE(prepared().replays());
}

TEST_F(Pieces, SurviveFailuresBetweenThem) {
  Open(Mode::kPieces);
  RunUntilReplayed();
  ExpectToRun(7);
  const std::vector<Tensor> expected = Fetched();
  for (int run = 1; run <= 4; ++run) {
    fail_in_ = run;
    const absl::Status status = Run(7);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("the link is down"), HasSubstr("AllReduce")));
    fail_in_ = 0;
    const FakeGpuLaunches before = Launches(0);
    ExpectToRun(7);
    ExpectSameBits(Fetched(), expected);
    EXPECT_EQ(Launches(0).graphs, before.graphs + 2);
  }
}

TEST_F(Pieces, AreNotUsedIfOneCannotBeCaptured) {
  Open(Mode::kPlain, "Waits");
  ExpectToRun(5);
  const std::vector<Tensor> expected = Fetched();
  Open(Mode::kPieces, "Waits");
  for (int i = 0; i < 6; ++i) ExpectToRun(i);
  ExpectSameBits(Fetched(), expected);
  EXPECT_FALSE(prepared().replays());
  for (int gpu : {0, 1}) EXPECT_EQ(Launches(gpu).graphs, 0);
}

TEST_F(Pieces, AreEnqueuedAheadOfTheDevice) {
  Open(Mode::kPieces, "Gate");
  RunUntilReplayed();
  ExpectToRun(9);
  const std::vector<Tensor> expected = Fetched();
  arrived_ = 0;
  closed_ = true;
  const FakeGpuLaunches before = Launches(0);
  ASSERT_TRUE(Start(7).ok());
  ASSERT_TRUE(Start(8).ok());
  EXPECT_EQ(Launches(0).graphs, before.graphs + 4);
  EXPECT_LE(arrived_, 1) << "two runs are under way, and the first is not done";
  std::thread opener([&] {
    while (arrived_ == 0) std::this_thread::yield();
    closed_ = false;
  });
  ASSERT_TRUE(Start(9).ok());
  opener.join();
  ExpectSameBits(Fetched(), expected);
}

TEST_F(Pieces, MeetTheDeadline) {
  Open(Mode::kPieces, "Gate", absl::Milliseconds(400));
  RunUntilReplayed();
  ExpectToRun(7);
  const std::vector<Tensor> expected = Fetched();
  closed_ = true;
  EXPECT_EQ(Run(6).code(), absl::StatusCode::kDeadlineExceeded);
  closed_ = false;
  ExpectToRun(7);
  ExpectSameBits(Fetched(), expected);
  EXPECT_TRUE(prepared().replays());
}

TEST_F(Pieces, ArePartOfNoTrace) {
  Open(Mode::kPieces);
  ExpectToRun(7);
  const std::vector<Tensor> expected = Fetched();
  StepTrace plain, later;
  ASSERT_TRUE(prepared().RunTraced(Batch(17, 1), plain).ok());
  RunUntilReplayed();
  const FakeGpuLaunches before = Launches(0);
  ASSERT_TRUE(prepared().RunTraced(Batch(17, 7), later).ok());
  ExpectSameBits(Fetched(), expected);
  EXPECT_EQ(Launches(0).graphs, before.graphs);
  EXPECT_EQ(later.spans.size(), plain.spans.size());
  ExpectToRun(7);
  ExpectSameBits(Fetched(), expected);
  EXPECT_EQ(Launches(0).graphs, before.graphs + 2);
}

}  // namespace
}  // namespace belfry
