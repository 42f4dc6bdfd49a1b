// The beginning of a run: its steps are compiled, and its metrics have names.
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/towers/summaries.h"
#include "ops/math.h"
#include "tests/trainers/experiment.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatchOf50 = 16;  // the fourth batch of an epoch has two

// The number of plans that the run compiles.
int64_t Plans(TrainerOptions options, bool evaluates, bool announced, bool summarises) {
  const TemporaryFolder folder;
  Experiment run("cpu:2", kBatchOf50, 0.1);
  if (summarises) {
    options.summaries = models::AddTrainSummaries(Scope(run.graph), run.step);
    options.directory = folder / "run";
  }
  const auto session = Session::Create(run.graph, run.devices, {.dump_plan = folder / "plans"}).value();
  if (evaluates) {
    options.evaluate = [&](int64_t) { return run.evaluator->Run(*session, *run.dataset, {}, kBatchOf50); };
  }
  if (announced) options.evaluation_steps = run.evaluator->Steps(run.dataset->size(), kBatchOf50);
  options.quiet = true;
  EXPECT_EQ(Trainer(*session, run.step, *run.input, options).Run(), absl::OkStatus());
  return std::distance(std::filesystem::directory_iterator(folder / "plans"), {});
}

TEST(Prepare, CompilesEachStepOnceAndNoneThatTheRunDoesNotReach) {
  const int64_t initializers = 1;
  EXPECT_EQ(Plans({.steps = 3}, false, false, false), initializers + 1);
  EXPECT_EQ(Plans({.steps = 4}, false, false, false), initializers + 2);
  EXPECT_EQ(Plans({.steps = 9}, true, false, false), initializers + 4);
  EXPECT_EQ(Plans({.steps = 9}, true, true, false), initializers + 4);
  // Summaries of steps 0 and 6, or with the small batch of step 3, or of all.
  EXPECT_EQ(Plans({.steps = 9, .summary_every = 6}, false, false, true), initializers + 3);
  EXPECT_EQ(Plans({.steps = 9, .summary_every = 3}, false, false, true), initializers + 4);
  EXPECT_EQ(Plans({.steps = 9, .summary_every = 1}, false, false, true), initializers + 2);
}

TEST(Prepare, TheStepsOfAnEvaluationAreThoseOfItsBatches) {
  const Experiment run("cpu:1", kBatchOf50, 0.1);
  const auto sizes = [&](int64_t examples, int64_t batch) {
    std::vector<int64_t> extents;
    for (const PlannedStep& step : run.evaluator->Steps(examples, batch)) extents.push_back(step.feeds[1].shape[0]);
    return extents;
  };
  EXPECT_EQ(sizes(50, 16), (std::vector<int64_t>{16, 2}));
  EXPECT_EQ(sizes(48, 16), (std::vector<int64_t>{16}));
  EXPECT_EQ(sizes(50, 50), (std::vector<int64_t>{50}));
  EXPECT_EQ(sizes(50, 500), (std::vector<int64_t>{50}));
}

// Trains a model whose metrics are nodes of these names.
absl::Status TrainWithMetrics(const std::vector<std::string>& names, bool twice = false) {
  const auto dataset = Blobs(50, 3);
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto input = data::Prefetcher::Create(*dataset, {.batch_size = kBatchOf50}).value();
  Graph graph(BuiltinOps());
  const auto model = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Output logits = models::Dense(tower, "logits", batch["point"], kClasses, {.weight_decay = 0.1});
    models::AddCrossEntropy(tower, logits, batch["label"]);
    for (const std::string& name : names) {
      const Output figure = ops::Mean(tower.Named(name), logits);
      for (int i = 0; i < (twice ? 2 : 1); ++i) tower.AddToCollection(models::kMetrics, figure);
    }
    return models::TotalLoss(tower);
  };
  const auto step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::GradientDescent({0.1}));
  const auto session = Session::Create(graph, devices).value();
  return Trainer(*session, step, *input, {.steps = 1, .quiet = true}).Run();
}

TEST(Prepare, MetricsHaveNamesOfTheirOwn) {
  EXPECT_EQ(TrainWithMetrics({"logit", "mean/logit"}), absl::OkStatus());
  EXPECT_EQ(TrainWithMetrics({"logit", "logit"}), absl::OkStatus()) << "the second node is logit_1";
  for (const char* name : {"loss", "step", "learning_rate", "seconds_step", "examples_per_second", "test_logit"}) {
    const absl::Status status = TrainWithMetrics({name});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(absl::StrCat("The metric '", name, "'")),
                      HasSubstr(absl::StrCat("node tower_0/", name, ", ")), HasSubstr("prepare_test.cc:")));
  }
  EXPECT_THAT(TrainWithMetrics({"logit"}, /*twice=*/true).message(), HasSubstr("The metric 'logit'"));
}

// Scalars that a program appends to TrainStep::metrics.
TEST(Prepare, AppendedMetricsAreScalarsWithNamesOfTheirOwn) {
  const auto train = [](const std::string& name, const std::function<Output(const Scope&)>& figure) {
    Experiment run("cpu:1", 16, 0.1);
    run.step.metrics.push_back({name, figure(Scope(run.graph).Named("figure"))});
    return Trainer(*run.session, run.step, *run.input, {.steps = 1, .quiet = true}).Run();
  };
  const auto zero = [](const Scope& scope) { return ops::Const(scope, 0.f); };
  EXPECT_EQ(train("zero", zero), absl::OkStatus());
  const auto expect_error = [](const absl::Status& status, const std::string& part) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  expect_error(train("loss", zero), "The metric 'loss' of TrainStep::metrics has the name of another figure");
  expect_error(train("wide", [](const Scope& scope) { return ops::Const(scope, 0.0); }),
               "'wide' of TrainStep::metrics is float64 [] (node figure); expected a float32 scalar");
  expect_error(train("pair", [](const Scope& scope) { return ops::Const(scope, {1.f, 2.f}); }), "is float32 [2]");
  expect_error(train("none", [](const Scope&) { return Output(); }),
               "'none' of TrainStep::metrics is an invalid Output");
}

TEST(Prepare, MetricsOfAnEvaluationHaveNamesOfTheirOwn) {
  EXPECT_EQ(CheckNames({.metrics = {{"loss", 1}, {"accuracy", 1}}}, "it"), absl::OkStatus());
  EXPECT_THAT(CheckNames({.metrics = {{"a", 1}, {"loss", 1}, {"loss", 2}}}, "it").message(),
              HasSubstr("two metrics of the name 'loss'"));
  EXPECT_THAT(CheckNames({.metrics = {{"a", 1}, {"", 1}}}, "it").message(), HasSubstr("metric 1 without a name"));
  Experiment run("cpu:1", kBatchOf50, 0.1);
  TrainerOptions options{.steps = 1, .quiet = true};
  options.evaluate = [](int64_t) { return Evaluation{.metrics = {{"loss", 1}, {"loss", 2}}}; };
  EXPECT_THAT(Trainer(*run.session, run.step, *run.input, options).Run(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'loss'")));
}

}  // namespace
}  // namespace belfry::trainers
