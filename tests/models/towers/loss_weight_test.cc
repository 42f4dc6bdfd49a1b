// Losses that state their weights: the mean over all tokens of a step, whatever tower they are in.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/losses.h"
#include "models/layers/metrics.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/descent.h"
#include "tests/main/testing.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;

constexpr int64_t kTokens = 4;
constexpr float kMaskedRate = 0.125;
const std::vector<data::Field> kTokenFields = {{"x", DType::kFloat32, {kTokens}}, {"mask", DType::kFloat32, {kTokens}}};

// sum((w x)^2 mask) / sum(mask), and the mean of w x as a metric.
absl::StatusOr<Output> MaskedMean(const Scope& tower, const Batch& batch) {
  const Variable w = GetVariable(tower, "w", {}, ConstantInitializer(1));
  const Output y = ops::Mul(tower, w, batch["x"]), count = ops::Sum(tower, batch["mask"]);
  const auto mean = [&](const Scope& scope, Output values) {
    return ops::Div(scope, ops::Sum(scope, ops::Mul(scope, values, batch["mask"])), count);
  };
  SetLossWeight(tower, count);
  AddMetric(tower, "mean_of_y", mean(tower.NameScope("figures"), y));
  return mean(tower, ops::Square(tower, y));
}

// The loss and the metric of a step, and w after it.
struct Figures {
  double loss, metric, w;
};

absl::StatusOr<Figures> MaskedStep(const std::vector<std::vector<float>>& x,
                                   const std::vector<std::vector<float>>& mask, const ReplicateOptions& options = {},
                                   const TowerFunction& model = MaskedMean) {
  Graph graph(BuiltinOps());
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(absl::StrCat("cpu:", x.size()), {.cpu_threads = 1}));
  const TrainStep step = ReplicateTowers(Scope(graph), devices, kTokenFields, model,
                                         optim::GradientDescent({.learning_rate = kMaskedRate}), options);
  for (const TrainMetric& metric : step.metrics) EXPECT_EQ(metric.name, "mean_of_y");  // as it was added
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(session->RunTarget(step.initialize));
  std::vector<Feed> feeds;
  for (size_t t = 0; t < x.size(); ++t) {
    const Shape shape{static_cast<int64_t>(x[t].size()) / kTokens, kTokens};
    feeds.push_back({step.towers[t].batch["x"], Tensor::Of<float>(absl::MakeConstSpan(x[t]), shape)});
    feeds.push_back({step.towers[t].batch["mask"], Tensor::Of<float>(absl::MakeConstSpan(mask[t]), shape)});
  }
  std::vector<Output> fetches = {step.loss};
  for (const TrainMetric& metric : step.metrics) fetches.push_back(metric.mean);
  ASSIGN_OR_RETURN(const auto fetched, session->Run(feeds, fetches, {step.update}));
  ASSIGN_OR_RETURN(const Tensor w, session->ReadVariable(graph.FindVariable("w", 0)));
  return Figures{fetched[0].scalar<float>(), fetches.size() > 1 ? fetched[1].scalar<float>() : 0., w.scalar<float>()};
}

// The same in double, over all towers.
Figures MaskedReference(const std::vector<std::vector<float>>& x, const std::vector<std::vector<float>>& mask) {
  double squares = 0, values = 0, count = 0;
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t i = 0; i < x[t].size(); ++i) {
      if (mask[t][i] == 0) continue;
      squares += static_cast<double>(x[t][i]) * x[t][i] * mask[t][i];
      values += static_cast<double>(x[t][i]) * mask[t][i];
      count += mask[t][i];
    }
  }
  return {squares / count, values / count, 1 - kMaskedRate * 2 * squares / count};
}

void ExpectFigures(const absl::StatusOr<Figures>& actual, const Figures& expected) {
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_NEAR(actual->loss, expected.loss, 1e-5 * std::abs(expected.loss));
  EXPECT_NEAR(actual->metric, expected.metric, 1e-5);
  EXPECT_NEAR(actual->w, expected.w, 1e-5 * std::max(1.0, std::abs(expected.w)));
}

TEST(LossWeight, MeanOverTokensIsNotTheMeanOfTowersMeans) {
  const std::vector<std::vector<float>> x = {{1, 1, 1, 1}, {3, 9, 9, 9}}, mask = {{1, 1, 1, 1}, {1, 0, 0, 0}};
  ExpectFigures(MaskedStep(x, mask), {(4 + 9) / 5., 7 / 5., 1 - kMaskedRate * 2 * 13 / 5});
}

// Random weights, batches of several sizes, in every placement of variables; one tower of weight 0, whose own mean is
// NaN, and one without examples.
TEST(LossWeight, TowersComputeWhatOneWouldOnTheWholeBatch) {
  std::mt19937 random(TestSeed());
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 8; ++trial) {
    std::vector<std::vector<float>> x, mask;
    for (int t = 0; t < 4; ++t) {
      const auto n = t == 2 ? 0 : kTokens * (1 + static_cast<int64_t>(random() % 3));
      x.emplace_back(n);
      mask.emplace_back(n);
      for (float& value : x.back()) value = normal(random);
      for (float& value : mask.back()) value = t == trial % 3 ? 0 : static_cast<float>(random() % 4) / 2;
    }
    mask[3][0] = 1;
    for (const VariableUpdate update : {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice}) {
      ExpectFigures(MaskedStep(x, mask, {.variable_update = update}), MaskedReference(x, mask));
      ExpectFigures(
          MaskedStep(x, mask, {.variable_update = update, .loss_scale = optim::LossScaleOptions{.initial = 64}}),
          MaskedReference(x, mask));
    }
    ExpectFigures(MaskedStep(x, mask, {.shard_optimizer = true}), MaskedReference(x, mask));
  }
}

TEST(LossWeight, AStepOfWeight0IsAnErrorAndUpdatesNothing) {
  const std::vector<std::vector<float>> x(2, std::vector<float>(kTokens, 1)), none(2, std::vector<float>(kTokens, 0));
  EXPECT_THAT(MaskedStep(x, none).status().message(),
              HasSubstr("The step has losses of weight 0 alone (SetLossWeight)"));
  EXPECT_THAT(MaskedStep(x, {none[0], x[1]}, {.variable_update = VariableUpdate::kIndependent}).status().message(),
              HasSubstr("Tower 0 has losses of weight 0 alone"));
}

// The sum of these weights is above 0.
TEST(LossWeight, EachInSeriesIsCheckedBeforeTheUpdate) {
  Graph graph(BuiltinOps());
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const TrainStep step = ReplicateTowers(Scope(graph), devices, kTokenFields, MaskedMean,
                                         optim::GradientDescent({.learning_rate = kMaskedRate}), {.micro_batches = 2});
  const auto session = Session::Create(graph, devices).value();
  ASSERT_EQ(session->RunTarget(step.initialize), absl::OkStatus());
  for (const float bad : {-1.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (int64_t tower = 0; tower < 2; ++tower) {
      const float mask = tower == 0 ? 1 : bad;
      const Shape shape{1, kTokens};
      ASSERT_EQ(session->RunTarget(step.accumulate,
                                   {{step.towers[0].batch["x"], Tensor::Of<float>({1, 2, 3, 4}, shape)},
                                    {step.towers[0].batch["mask"], Tensor::Of<float>({mask, 0, 0, 0}, shape)},
                                    {step.towers[0].index, Tensor::Of<int64_t>({tower}, {})},
                                    {step.towers[0].first_example, Tensor::Of<int64_t>({tower}, {})}}),
                absl::OkStatus());
    }
    EXPECT_THAT(session->RunTarget(step.update).message(), HasSubstr("The loss of tower 1 has the weight "));
    EXPECT_EQ(session->ReadVariable(graph.FindVariable("w", 0))->scalar<float>(), 1);
  }
}

TEST(LossWeight, MisuseIsAnErrorThatSaysWhatToDo) {
  const std::vector<std::vector<float>> x(2, std::vector<float>(kTokens, 1));
  const auto message = [&](const TowerFunction& model, const ReplicateOptions& options = {}) {
    return std::string(MaskedStep(x, x, options, model).status().message());
  };
  EXPECT_THAT(message([](const Scope& tower, const Batch& batch) {
                SetLossWeight(tower, batch["mask"]);
                return MaskedMean(tower, batch);
              }),
              HasSubstr("SetLossWeight: the weight must be a number, a scalar, but is tower_0/batch/mask"));
  EXPECT_THAT(message([](const Scope& tower, const Batch& batch) {
                SetLossWeight(tower, Output());
                return MaskedMean(tower, batch);
              }),
              HasSubstr("an invalid Output"));
  EXPECT_THAT(message([](const Scope& tower, const Batch& batch) {
                SetLossWeight(tower, ops::Const<int32_t>(tower, 1));
                return MaskedMean(tower, batch);
              }),
              HasSubstr("SetLossWeight was called 2 times for tower 0"));
  EXPECT_THAT(message([](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
                const Variable w = GetVariable(tower, "w", {}, ConstantInitializer(1));
                if (tower.name() == "tower_1/") SetLossWeight(tower, ops::Sum(tower, batch["mask"]));
                return ops::Mean(tower, ops::Mul(tower, w, batch["x"]));
              }),
              HasSubstr("it called SetLossWeight for tower 1, but not for tower 0"));
  EXPECT_THAT(message(MaskedMean, {.batch_norm = BatchNormPolicy::kSynchronised}),
              HasSubstr("SetLossWeight excludes synchronised batch normalisation"));
}

}  // namespace
}  // namespace belfry::models
