// The statistics of batch norm under Lookahead, with one tower and with several.
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/batch_norm.h"
#include "models/towers/replicate_towers.h"
#include "optim/descent.h"
#include "optim/lookahead.h"
#include "optim/parameter_groups.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

constexpr double kNormMomentum = 0.5, kAlpha = 0.25;
constexpr int kEvery = 2, kLookaheadSteps = 5;

// Four examples in each step; two steps never have the same.
std::vector<double> Examples(int step) { return {1.0 * step, 2.0 + step, -1.0, 0.5 * step * step}; }

optim::Lookahead Optimizer() {
  return optim::Lookahead(optim::GradientDescent({.learning_rate = 0.01}), {.steps = kEvery, .alpha = kAlpha});
}

// The moving mean in each replica after some steps. The layer is called `calls` times.
std::vector<std::vector<double>> MovingMeans(int towers, BatchNormPolicy policy, int calls = 1,
                                             const optim::Optimizer& optimizer = Optimizer()) {
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  const auto model = [calls](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    std::vector<Output> all;
    for (int i = 0; i < calls; ++i) {
      const Scope scope = tower.ReuseVariables(i == 0 ? Reuse::kNever : Reuse::kAlways);
      all.push_back(BatchNorm(scope, "bn", batch["x"], {.momentum = kNormMomentum}));
    }
    return ops::Mean(tower, ops::Square(tower, ops::AddN(tower, all)));
  };
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {1}}};
  const TrainStep step = ReplicateTowers(Scope(graph), devices, fields, model, optimizer, {.batch_norm = policy});
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  const auto session = Session::Create(graph, devices).value();
  EXPECT_TRUE(session->RunTarget(step.initialize).ok());
  for (int s = 1; s <= kLookaheadSteps; ++s) {
    const std::vector<double> examples = Examples(s);
    std::vector<Feed> feeds;
    for (int t = 0; t < towers; ++t) {
      const int64_t n = 4 / towers;
      Tensor x(DType::kFloat32, {n, 1});
      for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(examples[t * n + i]);
      feeds.push_back({step.towers[t].batch["x"], x});
    }
    EXPECT_TRUE(session->Run(feeds, {}, {step.update}).ok());
  }
  std::vector<std::vector<double>> means;
  for (int t = 0; t < towers; ++t) {
    means.push_back(session->ReadVariable(graph.FindVariable("bn/moving_mean", t))->ToDoubles());
  }
  return means;
}

// The moving mean of the first `examples` of each step.
double Expected(int examples, int calls = 1) {
  double moving = 0, slow = 0;
  for (int s = 1; s <= kLookaheadSteps; ++s) {
    const std::vector<double> all = Examples(s);
    double mean = 0;
    for (int i = 0; i < examples; ++i) mean += all[i] / examples;
    for (int i = 0; i < calls; ++i) moving = kNormMomentum * moving + (1 - kNormMomentum) * mean;
    if (s == 1) slow = moving;
    if (s % kEvery == 0) moving = slow += kAlpha * (moving - slow);
  }
  return moving;
}

TEST(LookaheadStatistics, FollowWithOneTower) {
  EXPECT_NEAR(MovingMeans(1, BatchNormPolicy::kPerTower)[0][0], Expected(4), 1e-5);
}

// Each call moves the statistics, and Lookahead follows them once in a step.
TEST(LookaheadStatistics, OfALayerThatIsCalledSeveralTimes) {
  for (const int calls : {2, 3}) {
    EXPECT_NEAR(MovingMeans(1, BatchNormPolicy::kPerTower, calls)[0][0], Expected(4, calls), 1e-5) << calls;
  }
}

TEST(LookaheadStatistics, FollowTheGroupOfTheirVariables) {
  const optim::ParameterGroups rest({{optim::NameMatches("bn/gamma"), optim::GradientDescent()}}, Optimizer());
  EXPECT_NEAR(MovingMeans(1, BatchNormPolicy::kPerTower, 1, rest)[0][0], Expected(4), 1e-5);
  const optim::ParameterGroups first({{optim::NameMatches("bn/*"), Optimizer()}}, optim::GradientDescent());
  EXPECT_NEAR(MovingMeans(1, BatchNormPolicy::kPerTower, 1, first)[0][0], Expected(4), 1e-5);
}

TEST(LookaheadStatistics, AreThoseOfTowerZero) {
  EXPECT_NEAR(MovingMeans(2, BatchNormPolicy::kPerTower)[0][0], Expected(2), 1e-5);
}

TEST(LookaheadStatistics, AreAlikeInSynchronisedTowers) {
  for (const std::vector<double>& mean : MovingMeans(2, BatchNormPolicy::kSynchronised)) {
    EXPECT_NEAR(mean[0], Expected(4), 1e-5);
  }
}

}  // namespace
}  // namespace belfry::models
