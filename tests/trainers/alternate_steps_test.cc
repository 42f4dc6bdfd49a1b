// Several training steps in one run, and a run that goes on by itself.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "trainers/callbacks/callback.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNumbers = 12, kNumbersBatch = 5;

// The metrics that a run shows after each step.
class MetricsOfSteps : public Callback {
 public:
  absl::Status OnStep(TrainingState& state) override {
    steps.push_back(state.results.metrics);
    return absl::OkStatus();
  }
  std::vector<std::vector<Metric>> steps;
};

// Two models: `mean` follows the mean of x, and `twice` follows twice the value of `mean`.
struct Pair {
  explicit Pair(const std::string& spec, const std::string& name = "twice", int series = 1)
      : devices(DeviceSet::Open(spec, {.cpu_threads = 1}).value()) {
    Tensor x(DType::kFloat32, {kNumbers});
    for (int64_t i = 0; i < kNumbers; ++i) x.data<float>()[i] = static_cast<float>(i * i % 7);
    dataset = data::FromTensors({{"x", x}}).value();
    const int towers = static_cast<int>(devices.TowerDevices().size()) * series;
    input =
        data::Prefetcher::Create(*dataset, {.batch_size = kNumbersBatch, .towers = towers, .shuffle = false}).value();
    const auto mean_loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Variable mean = GetVariable(tower, "value", {}, ConstantInitializer(0));
      return ops::Mean(tower, ops::SquaredDifference(tower, batch["x"], mean));
    };
    const auto twice_loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Variable twice = GetVariable(tower, "value", {}, ConstantInitializer(0));
      const Output mean = tower.graph().FindVariable("mean/value", tower.replica());
      const Output wanted = ops::Add(tower, ops::Scale(tower, mean, 2), ops::Scale(tower, batch["x"], 0));
      const Output loss = ops::Mean(tower, ops::SquaredDifference(tower, wanted, twice));
      tower.AddToCollection(models::kMetrics, ops::Mean(tower.Named("wanted"), wanted));
      return loss;
    };
    const Scope root(graph);
    const optim::GradientDescent slow({.learning_rate = 0.1});
    const optim::GradientDescent stepwise({.learning_rate = optim::Piecewise({1}, {0.5, 0.25})});
    mean = models::ReplicateTowers(root.VariableScope("mean"), devices, *input, mean_loss, slow,
                                   {.micro_batches = series});
    twice = models::ReplicateTowers(root.VariableScope("twice"), devices, *input, twice_loss, stepwise,
                                    {.name = name, .micro_batches = series});
    session = Session::Create(graph, devices).value();
  }

  double Value(const Variable& variable) const {
    const Tensor value = session->ReadVariable(variable).value();
    return value.dtype() == DType::kInt64 ? static_cast<double>(value.scalar<int64_t>()) : value.scalar<float>();
  }
  double Value(const std::string& name) const { return Value(graph.FindVariable(name, 0)); }

  std::unique_ptr<data::Dataset> dataset;
  DeviceSet devices;
  Graph graph{BuiltinOps()};
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep mean, twice;
  std::unique_ptr<Session> session;
};

struct TwoWeights {
  double mean = 0, twice = 0, loss = 0;
};

// The same by a plain loop.
TwoWeights ByLoop(int64_t steps, int64_t every) {
  TwoWeights values;
  int64_t runs = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t begin = step % 3 * kNumbersBatch, end = std::min(begin + kNumbersBatch, kNumbers);
    double gradient = 0;
    for (int64_t i = begin; i < end; ++i) {
      gradient += 2 * (values.mean - static_cast<double>(i * i % 7)) / static_cast<double>(end - begin);
    }
    values.mean -= 0.1 * gradient;
    if ((step + 1) % every != 0) continue;
    const double difference = values.twice - 2 * values.mean;
    values.loss = difference * difference;
    values.twice -= (runs++ <= 1 ? 0.5 : 0.25) * 2 * difference;
  }
  return values;
}

class OtherStepsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

TEST_F(OtherStepsTest, EachCountsItsOwnStepsAndFollowsItsOwnSchedule) {
  for (const auto& [spec, series] : {std::pair("cpu:1", 1), std::pair("cpu:3", 1), std::pair("cpu:1", 4)}) {
    for (const int64_t every : {1, 3}) {
      Pair pair(spec, "twice", series);
      MetricsOfSteps metrics;
      Trainer trainer(*pair.session, pair.mean, *pair.input,
                      {.steps = 10,
                       .alternate_steps = {{.step = &pair.twice, .every = every}},
                       .quiet = true,
                       .callbacks = {&metrics}});
      ASSERT_TRUE(trainer.Run().ok());
      const TwoWeights expected = ByLoop(10, every);
      EXPECT_NEAR(pair.Value("mean/value"), expected.mean, 1e-5);
      EXPECT_NEAR(pair.Value("twice/value"), expected.twice, 1e-5);
      EXPECT_EQ(pair.Value("global_step"), 10);
      EXPECT_EQ(pair.Value("twice/global_step"), static_cast<double>(10 / every));
      ASSERT_EQ(metrics.steps.back().size(), 2u);
      EXPECT_EQ(metrics.steps.back()[0].name, "twice");
      EXPECT_EQ(metrics.steps.back()[1].name, "twice/wanted");
      EXPECT_NEAR(metrics.steps.back()[0].value, expected.loss, 1e-5);
    }
  }
}

TEST_F(OtherStepsTest, ARunGoesOnByItself) {
  const auto run = [&](const std::string& spec, int64_t steps, const std::string& directory) {
    Pair pair(spec);
    Trainer trainer(*pair.session, pair.mean, *pair.input,
                    {.steps = steps,
                     .alternate_steps = {{.step = &pair.twice, .every = 2}},
                     .quiet = true,
                     .directory = directory,
                     .resume = {.latest = true}});
    EXPECT_TRUE(trainer.Run().ok());
    EXPECT_EQ(trainer.steps(), steps);
    return std::pair(pair.Value("mean/value"), pair.Value("twice/value"));
  };
  const auto straight = run("cpu:2", 9, Path("straight"));
  run("cpu:2", 4, Path("parts"));
  run("cpu:2", 7, Path("parts"));
  EXPECT_EQ(run("cpu:2", 9, Path("parts")), straight);
  // Nothing is left.
  EXPECT_EQ(run("cpu:2", 9, Path("parts")), straight);
}

TEST_F(OtherStepsTest, WhatDoesNotFitIsAnError) {
  const auto status = [](Pair& pair, std::vector<AlternateStep> steps) {
    return std::string(
        Trainer(*pair.session, pair.mean, *pair.input, {.steps = 4, .alternate_steps = std::move(steps), .quiet = true})
            .Run()
            .message());
  };
  Pair pair("cpu:1"), unnamed("cpu:1", "");
  EXPECT_THAT(status(pair, {{}}), HasSubstr("a step that is null"));
  EXPECT_THAT(status(pair, {{&pair.twice, 0}}), HasSubstr("runs 'twice' every 0 steps"));
  EXPECT_THAT(status(pair, {{&pair.twice}, {&pair.twice}}), HasSubstr("two are called 'twice'"));
  EXPECT_THAT(status(unnamed, {{&unnamed.twice}}), HasSubstr("ReplicateOptions::name"));
}

TEST_F(OtherStepsTest, AnotherIntervalThanBeforeIsAnError) {
  const auto run = [&](int64_t steps, int64_t every) {
    Pair pair("cpu:1");
    return Trainer(*pair.session, pair.mean, *pair.input,
                   {.steps = steps,
                    .alternate_steps = {{.step = &pair.twice, .every = every}},
                    .quiet = true,
                    .directory = Path("run"),
                    .resume = {.latest = true}})
        .Run();
  };
  ASSERT_TRUE(run(6, 2).ok());
  EXPECT_THAT(run(8, 3),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'twice' has run 3 times, but after 6 steps")));
}

}  // namespace
}  // namespace belfry::trainers
