// Variables that follow others: target networks, and averages of weights.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "framework/runtime/saver.h"
#include "models/layers/batch_norm.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/moving_average.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"
#include "tests/models/towers/trajectory_fixture.h"

namespace belfry::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFollowed[] = {"encoder/weights", "encoder/biases", "head/weights", "head/biases"};

// The network, and its target, which half of the goal comes from. A gradient would flow into it.
Output GoalFromTarget(const Scope& tower, const Batch& batch) {
  const Output target = Trajectory::Predict(tower.Variables("target"), batch);
  const Output goal = ops::Scale(tower, ops::Add(tower, target, batch["y"]), 0.5);
  return ops::Mean(tower, ops::Square(tower, ops::Sub(tower, Trajectory::Predict(tower, batch), goal)));
}

std::vector<Following> All(double decay, int64_t every = 1) {
  return {{.variables = "target/encoder/*", .of = "encoder/*", .decay = decay, .every = every},
          {.variables = "target/head/*", .of = "head/*", .decay = decay, .every = every}};
}

struct FollowingCase {
  std::string name, devices;
  ReplicateOptions options;
};

class FollowingTest : public testing::TestWithParam<FollowingCase> {
 protected:
  static absl::Status Open(Trajectory& run, const std::vector<Following>& follow,
                           const std::optional<optim::LossScaleOptions>& scale = {}) {
    ReplicateOptions options = GetParam().options;
    options.follow = follow;
    options.clip_global_norm = 0.5;
    options.loss_scale = scale;
    return run.Open(GetParam().devices, optim::AdamW({.learning_rate = 0.05}), options, GoalFromTarget);
  }
  // The variables of replica 0, and one vector of all numbers that the target has.
  static std::vector<double> Target(const Trajectory& run, const std::string& prefix = "target/") {
    std::vector<double> all;
    for (const char* name : kFollowed) {
      for (const double value : run.Value(prefix + name)) all.push_back(value);
    }
    return all;
  }
};

TEST_P(FollowingTest, MovesByItsFormulaAfterEachUpdate) {
  Trajectory run;
  ASSERT_EQ(Open(run, All(0.75)), absl::OkStatus());
  EXPECT_EQ(run.step().towers[0].variables.size(), 4u);
  std::vector<double> expected = Target(run, "");
  EXPECT_EQ(Target(run), expected);  // it begins as a copy
  for (int step = 0; step < 5; ++step) {
    ASSERT_EQ(run.Train(1), absl::OkStatus());
    const std::vector<double> online = Target(run, "");
    for (size_t i = 0; i < online.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * online[i];
    EXPECT_THAT(Target(run), testing::Pointwise(testing::DoubleNear(1e-6), expected)) << step;
    EXPECT_THAT(Target(run), testing::Not(testing::Pointwise(testing::DoubleNear(1e-4), online)));
  }
  EXPECT_EQ(CheckReplicas(run.session(), static_cast<int>(run.step().towers.size())), absl::OkStatus());
}

TEST_P(FollowingTest, CopiesTheBitsAfterEverySecondUpdate) {
  Trajectory run;
  ASSERT_EQ(Open(run, All(0, 2)), absl::OkStatus());
  std::vector<double> expected = Target(run);
  for (int step = 1; step <= 4; ++step) {
    ASSERT_EQ(run.Train(1), absl::OkStatus());
    if (step % 2 == 0) expected = Target(run, "");
    EXPECT_EQ(Target(run), expected) << step;
    EXPECT_EQ(Target(run) == Target(run, ""), step % 2 == 0);
  }
}

TEST_P(FollowingTest, StaysWhereItIsInASkippedStep) {
  Trajectory run;
  ASSERT_EQ(Open(run, All(0.75), optim::LossScaleOptions{.initial = 256}), absl::OkStatus());
  ASSERT_EQ(run.Train(2), absl::OkStatus());
  const std::vector<double> before = Target(run);
  ASSERT_EQ(run.Train(1, INFINITY), absl::OkStatus());
  EXPECT_EQ(Target(run), before);
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  EXPECT_NE(Target(run), before);
}

TEST_P(FollowingTest, TrainsAsOneTowerAndGoesOnFromACheckpoint) {
  Trajectory run, resumed, one;
  ASSERT_EQ(Open(run, All(0.75, 2)), absl::OkStatus());
  ASSERT_EQ(Open(resumed, All(0.75, 2)), absl::OkStatus());
  ASSERT_EQ(one.Open("cpu:1", optim::AdamW({.learning_rate = 0.05}), {.follow = All(0.75, 2), .clip_global_norm = 0.5},
                     GoalFromTarget),
            absl::OkStatus());
  ASSERT_EQ(one.Train(7), absl::OkStatus());
  ASSERT_EQ(run.Train(3), absl::OkStatus());
  Snapshot saved;
  ASSERT_EQ(saved.Take(run.session()), absl::OkStatus());
  ASSERT_EQ(Restore(resumed.session(), "the run", saved.tensors()).status(), absl::OkStatus());
  ASSERT_EQ(run.Train(4), absl::OkStatus());
  ASSERT_EQ(resumed.Train(4), absl::OkStatus());
  EXPECT_EQ(Target(resumed), Target(run));
  EXPECT_EQ(Target(resumed, ""), Target(run, ""));
  EXPECT_THAT(Target(run), testing::Pointwise(testing::DoubleNear(2e-5), Target(one)));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FollowingTest,
    testing::Values(FollowingCase{"one", "cpu:1", {}}, FollowingCase{"three", "cpu:3", {}},
                    FollowingCase{"series", "cpu:2", {.micro_batches = 2}},
                    FollowingCase{"sharded", "cpu:3", {.bucket_bytes = 64, .shard_optimizer = true}},
                    FollowingCase{"parameter_device", "cpu:2", {.variable_update = VariableUpdate::kParameterDevice}}),
    [](const auto& info) { return info.param.name; });

// A normalised column whose target normalises with averages that follow.
absl::StatusOr<Output> NormalisedWithTarget(const Scope& tower, const Batch& batch) {
  const Output y = BatchNorm(tower.Variables("online"), "bn", batch["x"], {.momentum = 0.5});
  const Output goal = BatchNorm(tower.Variables("target"), "bn", batch["x"], {.momentum = 0.5});
  return ops::Mean(tower, ops::Square(tower, ops::Sub(tower, y, ops::Scale(tower, goal, 2))));
}

TEST(FollowedStatistics, MoveAfterTheStatisticsOfTheStep) {
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {1}}};
  const auto build = [&](Graph& graph, const DeviceSet& devices, BatchNormPolicy policy) {
    return ReplicateTowers(Scope(graph), devices, fields, NormalisedWithTarget, optim::GradientDescent(),
                           {.batch_norm = policy, .follow = {{"target/*", "online/*", 0.5}}});
  };
  for (const int towers : {1, 2}) {
    const DeviceSet devices = DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value();
    Graph graph(BuiltinOps());
    const TrainStep step = build(graph, devices, BatchNormPolicy::kSynchronised);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const auto session = Session::Create(graph, devices, {.timeout = absl::Seconds(60)}).value();
    ASSERT_EQ(session->RunTarget(step.initialize), absl::OkStatus());
    std::vector<Feed> feeds;
    for (int t = 0; t < towers; ++t) {
      const std::vector<float> x =
          towers == 1 ? std::vector<float>{2, 6, 10, 14} : std::vector<float>{2 + 8.f * t, 6 + 8.f * t};
      feeds.push_back({step.towers[t].batch["x"], Tensor::Of<float>(x, {4 / towers, 1})});
    }
    ASSERT_EQ(session->RunTarget(step.update, feeds), absl::OkStatus());
    for (int replica = 0; replica < towers; ++replica) {
      const auto value = [&](const char* name) {
        return session->ReadVariable(graph.FindVariable(name, replica))->ToDoubles()[0];
      };
      EXPECT_FLOAT_EQ(value("online/bn/moving_mean"), 4);         // of 0 and 8
      EXPECT_FLOAT_EQ(value("target/bn/moving_mean"), 2);         // of 0 and 4
      EXPECT_FLOAT_EQ(value("online/bn/moving_variance"), 10.5);  // of 1 and 20
      EXPECT_FLOAT_EQ(value("target/bn/moving_variance"), 5.75);
    }
  }
  Graph graph(BuiltinOps());
  build(graph, DeviceSet::Open("cpu:2").value(), BatchNormPolicy::kPerTower);
  EXPECT_THAT(
      graph.status().message(),
      AllOf(HasSubstr("target/bn/moving_mean would follow online/bn/moving_mean, which moves in the replica of one"),
            HasSubstr("kSynchronised")));
}

std::string FollowingError(const ReplicateOptions& options, const TowerFunction& model = GoalFromTarget) {
  Trajectory run;
  return std::string(run.Open("cpu:2", optim::GradientDescent(), options, model).message());
}

TEST(FollowingErrors, NameTheVariableAndThePattern) {
  const auto of = [](std::vector<Following> rules) { return FollowingError({.follow = std::move(rules)}); };
  EXPECT_EQ(of({{"target/head/weights", "head/weights"}}), "");
  EXPECT_THAT(of({{"goal/*", "*"}}), AllOf(HasSubstr("follow: the pattern 'goal/*' matches no variable"),
                                           HasSubstr("target/encoder/weights")));
  EXPECT_THAT(of({{"target/*", "online/*"}}),
              HasSubstr("follow, 'target/*' of 'online/*': target/encoder/biases would follow online/encoder/biases, "
                        "but the model has no variable of this name"));
  EXPECT_THAT(of({{"target/head/weights", "head/biases"}}),
              HasSubstr("target/head/weights would follow head/biases, but is float32 [4,1], and that is float32 [1]"));
  EXPECT_THAT(of({{"target/*", "target/*"}}), HasSubstr("target/encoder/biases, which is itself"));
  EXPECT_THAT(of({{"target/*", "*"}, {"target/head/*", "head/*"}}),
              HasSubstr("'target/head/*' of 'head/*': target/head/biases follows another variable already"));
  EXPECT_THAT(of({{"target/head/*", "head/*"}, {"head/*", "target/head/*"}}),
              HasSubstr("which follows another itself"));
  EXPECT_THAT(of({{"target/*", "head"}}), HasSubstr("expected one * in both patterns"));
  EXPECT_THAT(of({{"target/*", "*", 1}}), HasSubstr("the decay is 1; expected a number in [0, 1)"));
  EXPECT_THAT(of({{"target/*", "*", NAN}}), HasSubstr("the decay is nan"));
  EXPECT_THAT(of({{"target/*", "*", 0, 0}}), HasSubstr("every 0 steps; expected at least 1"));
  EXPECT_THAT(FollowingError({.trainable = {"*weights"}, .follow = {{"target/head/*", "head/*"}}}),
              HasSubstr("target/head/weights would also be trained, by the pattern '*weights' of"));
}

TEST(FollowingErrors, AnotherStepTrainsWhatFollows) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {3}}, {"y", DType::kFloat32, {1}}};
  for (const bool frozen : {false, true}) {
    Graph graph(BuiltinOps());
    ReplicateOptions other{.name = "other"};
    if (frozen) other.frozen = {"target/*"};
    const Scope root = Scope(graph).ReuseVariables(Reuse::kIfPresent);
    ReplicateTowers(root, devices, fields, GoalFromTarget, optim::GradientDescent(), {.follow = All(0.5)});
    ReplicateTowers(root, devices, fields, GoalFromTarget, optim::GradientDescent(), other);
    EXPECT_EQ(graph.status().ok(), frozen) << graph.status();
    EXPECT_EQ(absl::StrContains(graph.status().message(), "target/encoder/biases follows another variable in one"),
              !frozen);
  }
}

// A network over the averages computes and saves what one with these weights does.
TEST(AveragedTest, ANetworkReadsTheAverages) {
  Trajectory run, other;
  ASSERT_EQ(run.Open("cpu:2", optim::AdamW({.learning_rate = 0.05}), {.moving_average = 0.9}), absl::OkStatus());
  ASSERT_EQ(other.Open("cpu:1", optim::GradientDescent(), {}), absl::OkStatus());
  const auto predict = [](const Scope& scope, const Tensor& x, Trajectory& trajectory, Output& input) {
    const Batch batch(scope, std::vector<data::Field>{{"x", DType::kFloat32, {3}}});
    const Output y = Trajectory::Predict(scope, batch);
    EXPECT_EQ(scope.status(), absl::OkStatus());
    input = batch["x"];
    EXPECT_EQ((*trajectory.session().Run({{input, x}}, {y}))[0].shape(), (Shape{4, 1}));
    return y;
  };
  ASSERT_EQ(run.Train(5), absl::OkStatus());
  const Tensor x = NormalTensor({4, 3});
  const Scope root(run.step().towers[0].scope.graph());
  Output input, plain_input, other_input;
  const Output averaged = predict(run.step().Averaged(root.NameScope("averaged")), x, run, input);
  const Output plain = predict(root.NameScope("plain").ReuseVariables(Reuse::kAlways), x, run, plain_input);
  for (const char* name : kFollowed) {
    const Variable average = run.graph().FindVariable(optim::ExponentialMovingAverage::NameOf(name), 0);
    const Tensor value = run.session().ReadVariable(average).value();
    ASSERT_EQ(other.session().WriteVariable(other.graph().FindVariable(name, 0), value), absl::OkStatus());
  }
  const Scope of_other(other.step().towers[0].scope.graph());
  const Output expected = predict(of_other.ReuseVariables(Reuse::kAlways), x, other, other_input);
  const Tensor result = run.session().Run({{input, x}}, {averaged}).value()[0];
  EXPECT_TRUE(SameBits(result, other.session().Run({{other_input, x}}, {expected}).value()[0]));
  EXPECT_FALSE(SameBits(result, run.session().Run({{plain_input, x}}, {plain}).value()[0]));

  const std::string path = testing::TempDir() + "averaged.safetensors";
  ASSERT_EQ(SaveModel(run.session(), {{"x", input}}, {{"y", averaged}}, path), absl::OkStatus());
  const std::vector<io::NamedTensor> saved = io::ReadSafetensors(path).value();
  for (const char* name : kFollowed) {
    const auto tensor = absl::c_find_if(saved, [&](const io::NamedTensor& other) { return other.name == name; });
    ASSERT_NE(tensor, saved.end()) << name;
    EXPECT_EQ(tensor->value.ToDoubles(), other.Value(name));
  }
}

TEST(AveragedTest, NeedsAverages) {
  Trajectory run;
  ASSERT_EQ(run.Open("cpu:1", optim::GradientDescent(), {}), absl::OkStatus());
  const Scope root(run.step().towers[0].scope.graph());
  run.step().Averaged(root);
  EXPECT_THAT(root.status().message(),
              HasSubstr("keeps no averages of its weights; set ReplicateOptions::moving_average"));
}

}  // namespace
}  // namespace belfry::models
