#include "models/layers/batch_norm.h"

#include <cmath>

#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using BatchNormLayer = ModelTest;

struct Moments {
  std::vector<double> mean, variance;
};

// The moments of each column of x, which has `channels` columns.
Moments MomentsOf(const std::vector<double>& x, size_t channels) {
  Moments moments{std::vector<double>(channels), std::vector<double>(channels)};
  const double rows = static_cast<double>(x.size()) / static_cast<double>(channels);
  for (size_t i = 0; i < x.size(); ++i) moments.mean[i % channels] += x[i] / rows;
  for (size_t i = 0; i < x.size(); ++i) {
    moments.variance[i % channels] += std::pow(x[i] - moments.mean[i % channels], 2) / rows;
  }
  return moments;
}

void ExpectNormalized(const std::vector<double>& y, const std::vector<double>& x, const Moments& moments,
                      double epsilon) {
  ASSERT_EQ(y.size(), x.size());
  const size_t channels = moments.mean.size();
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % channels;
    EXPECT_NEAR(y[i], (x[i] - moments.mean[c]) / std::sqrt(moments.variance[c] + epsilon), 1e-4) << i;
  }
}

TEST_F(BatchNormLayer, TrainsOnTheBatchAndEvaluatesOnMovingAverages) {
  const Output x = Images(3, 2, 5);
  const Output y = BatchNorm(scope_, "bn", x, {.momentum = 0.75, .epsilon = 1e-2});
  const Output evaluation = BatchNorm(scope_.NameScope("evaluation").ReuseVariables(Reuse::kAlways), "bn", x,
                                      {.training = false, .epsilon = 1e-2});
  EXPECT_EQ(y.shape(), x.shape());
  const std::vector<Output> updates = graph_.GetCollection(kUpdateOps);
  EXPECT_EQ(updates.size(), 2u);
  const Node* update = ops::Group(scope_, updates);
  Start();

  Moments moving{std::vector<double>(5, 0.0), std::vector<double>(5, 1.0)};
  for (int step = 0; step < 4; ++step) {
    const Tensor batch = Random({4 + step, 3, 2, 5});
    const std::vector<Tensor> result = Run({{x, batch}}, {y, evaluation}, {update});
    const Moments moments = MomentsOf(batch.ToDoubles(), 5);
    ExpectNormalized(result[0].ToDoubles(), batch.ToDoubles(), moments, 1e-2);
    ExpectNormalized(result[1].ToDoubles(), batch.ToDoubles(), moving, 1e-2);
    for (size_t c = 0; c < 5; ++c) {
      moving.mean[c] = 0.75 * moving.mean[c] + 0.25 * moments.mean[c];
      moving.variance[c] = 0.75 * moving.variance[c] + 0.25 * moments.variance[c];
      EXPECT_NEAR(Value(Find("bn/moving_mean"))[c], moving.mean[c], 1e-5);
      EXPECT_NEAR(Value(Find("bn/moving_variance"))[c], moving.variance[c], 1e-5);
    }
  }
}

TEST_F(BatchNormLayer, GammaScalesAndBetaShifts) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output y = BatchNorm(scope_, "bn", x);
  Start();
  ASSERT_TRUE(session_->WriteVariable(Find("bn/gamma"), Tensor::Of<float>({2, -1, 0})).ok());
  ASSERT_TRUE(session_->WriteVariable(Find("bn/beta"), Tensor::Of<float>({5, 6, 7})).ok());
  const Moments moments = MomentsOf(Run({{x, Random({9, 3})}}, {y})[0].ToDoubles(), 3);
  const double mean[] = {5, 6, 7}, variance[] = {4, 1, 0};
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(moments.mean[c], mean[c], 1e-4);
    EXPECT_NEAR(moments.variance[c], variance[c], 0.1);
  }
}

TEST_F(BatchNormLayer, WithoutScaleGammaIsConstant) {
  const Output x = Images(3, 2, 5);
  const Output y = BatchNorm(scope_, "bn", x, {.epsilon = 1e-12, .gamma = 2, .scale = false});
  EXPECT_THAT(VariableNames(), ElementsAre("bn/beta", "bn/moving_mean", "bn/moving_variance"));
  Start();
  const Tensor batch = Random({4, 3, 2, 5});
  std::vector<double> halved = Run({{x, batch}}, {y})[0].ToDoubles();
  for (double& value : halved) value /= 2;
  ExpectNormalized(halved, batch.ToDoubles(), MomentsOf(batch.ToDoubles(), 5), 1e-12);
}

TEST_F(BatchNormLayer, OnlyGammaAndBetaAreTrained) {
  BatchNorm(scope_, "bn", Images(2, 2, 3), {.training = false});
  EXPECT_THAT(VariableNames(), ElementsAre("bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"));
  EXPECT_EQ(optim::TrainableVariables(scope_).size(), 2u);
  EXPECT_TRUE(graph_.GetCollection(kUpdateOps).empty());
}

TEST_F(BatchNormLayer, EachTowerHasItsOwnUpdates) {
  for (int tower = 0; tower < 2; ++tower) {
    const Scope scope = scope_.NameScope("tower_" + std::to_string(tower)).Replica(tower);
    BatchNorm(scope, "bn", ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 3}));
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  for (const char* tower : {"tower_0", "tower_1"}) EXPECT_EQ(graph_.GetCollection(kUpdateOps, tower).size(), 2u);
}

TEST_F(BatchNormLayer, ABatchWithoutExamplesMovesNothing) {
  const Output x = Images(3, 2, 5);
  BatchNorm(scope_, "bn", x, {.momentum = 0.5});
  const Node* update = ops::Group(scope_, graph_.GetCollection(kUpdateOps));
  Start();
  Run({{x, Random({4, 3, 2, 5})}}, {x}, {update});
  const std::vector<double> mean = Value(Find("bn/moving_mean")), variance = Value(Find("bn/moving_variance"));
  Run({{x, Random({0, 3, 2, 5})}}, {x}, {update});
  EXPECT_EQ(Value(Find("bn/moving_mean")), mean);
  EXPECT_EQ(Value(Find("bn/moving_variance")), variance);
}

// Each call moves the averages from where the call before it left them.
TEST_F(BatchNormLayer, CalledSeveralTimesMovesItsAveragesOncePerCall) {
  for (const int calls : {1, 2, 30}) {
    for (const bool unknown_batch : {false, true}) {
      Graph graph(BuiltinOps());
      const Scope scope(graph);
      const Output x = ops::Placeholder(scope, DType::kFloat32, {unknown_batch ? Shape::kUnknown : 2, 1});
      std::vector<Output> ys;
      for (int call = 0; call < calls; ++call) {
        ys.push_back(BatchNorm(scope.ReuseVariables(Reuse::kIfPresent), "bn", x, {.momentum = 0.9}));
      }
      const Node* const update = ops::Group(scope, graph.GetCollection(kUpdateOps));
      const Node* const initialize = InitializeVariables(scope);
      ASSERT_TRUE(graph.status().ok()) << graph.status();
      const auto session = Session::Create(graph, devices_).value();
      ASSERT_TRUE(session->RunTarget(initialize).ok());
      double mean = 0, variance = 1;
      for (int step = 0; step < 10; ++step) {
        ASSERT_TRUE(session->Run({{x, Tensor::Of<float>({8, 12}, {2, 1})}}, {ys.back()}, {update}).ok());
        for (int call = 0; call < calls; ++call) {
          mean = 0.9 * mean + 0.1 * 10;
          variance = 0.9 * variance + 0.1 * 4;
        }
        EXPECT_NEAR(session->ReadVariable(graph.FindVariable("bn/moving_mean", 0))->ToDoubles()[0], mean, 1e-5);
        EXPECT_NEAR(session->ReadVariable(graph.FindVariable("bn/moving_variance", 0))->ToDoubles()[0], variance, 1e-5);
      }
    }
  }
}

TEST_F(BatchNormLayer, WithAMomentumOfOneKeepsItsAverages) {
  BatchNorm(scope_, "bn", Images(3, 2, 5), {.momentum = 1});
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_TRUE(graph_.GetCollection(kUpdateOps).empty());
}

TEST_F(BatchNormLayer, AMomentumOutOfRangeIsAnError) {
  EXPECT_FALSE(BatchNorm(scope_, "bn", Images(2, 2, 3), {.momentum = 2}).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("momentum must be in [0, 1], but is 2"));
}

TEST_F(BatchNormLayer, UnknownChannelsAreAnError) {
  EXPECT_FALSE(BatchNorm(scope_, "bn", Images(2, 2, Shape::kUnknown)).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("BatchNorm 'bn' needs an input"));
}

}  // namespace
}  // namespace belfry::models
