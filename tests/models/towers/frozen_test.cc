// Training with frozen variables.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "models/layers/batch_norm.h"
#include "models/layers/frozen.h"
#include "ops/training.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"
#include "tests/models/towers/trajectory_fixture.h"

namespace belfry::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct FrozenCase {
  std::string name, devices;
  ReplicateOptions options;
};

class FrozenTrunk : public testing::TestWithParam<FrozenCase> {};

// The weights and the bias of the head after so many steps of gradient descent on fixed features.
std::vector<double> HeadAlone(int steps, double rate, double weight_decay) {
  const auto fixed = [](int k) { return std::sin(k) / 2; };
  double features[9][4], head[5];
  for (int k = 0; k < 5; ++k) head[k] = fixed(17 + k);
  for (int i = 0; i < 9; ++i) {
    for (int j = 0; j < 4; ++j) {
      double sum = fixed(13 + j);
      for (int k = 0; k < 3; ++k) sum += std::cos(3 * i + k) * fixed(4 * k + j);
      features[i][j] = std::tanh(sum);
    }
  }
  for (int step = 0; step < steps; ++step) {
    double gradient[5] = {};
    for (int i = 0; i < 9; ++i) {
      double error = head[4] - std::sin(i);
      for (int j = 0; j < 4; ++j) error += features[i][j] * head[j];
      for (int j = 0; j < 5; ++j) gradient[j] += 2 * error * (j == 4 ? 1 : features[i][j]) / 9;
    }
    for (int j = 0; j < 5; ++j) head[j] -= rate * (gradient[j] + weight_decay * head[j]);
  }
  return {head, head + 5};
}

TEST_P(FrozenTrunk, KeepsItsBytesWhileTheHeadLearns) {
  ReplicateOptions options = GetParam().options;
  if (options.trainable.empty()) options.frozen = {"encoder/*"};
  options.moving_average = 0.9;
  Trajectory run;
  const optim::GradientDescent descent({.learning_rate = 0.1, .weight_decay = 0.05});
  ASSERT_EQ(run.Open(GetParam().devices, descent, options), absl::OkStatus());
  std::vector<std::pair<Variable, Tensor>> before;
  for (const Variable& variable : run.graph().variables()) {
    if (!absl::StartsWith(variable.name(), "encoder/")) continue;
    EXPECT_EQ(variable.def().slot_of, nullptr) << variable.name();
    before.emplace_back(variable, run.session().ReadVariable(variable).value().Clone());
  }
  EXPECT_EQ(before.size(), 2 * (options.variable_update == VariableUpdate::kReplicated ? run.step().towers.size() : 1));
  ASSERT_EQ(run.Train(20), absl::OkStatus());
  for (const auto& [variable, value] : before) {
    EXPECT_TRUE(SameBits(run.session().ReadVariable(variable).value(), value)) << variable.name();
  }
  const std::vector<double> expected = HeadAlone(20, 0.1, 0.05);
  std::vector<double> head = run.Value("head/weights");
  head.push_back(run.Value("head/biases")[0]);
  EXPECT_THAT(head, testing::Pointwise(testing::DoubleNear(1e-5), expected));
}

TEST_P(FrozenTrunk, HasNoGradients) {
  ReplicateOptions options = GetParam().options;
  options.frozen = {"encoder/weights", "encoder/b*"};
  Trajectory run;
  ASSERT_EQ(run.Open(GetParam().devices, optim::AdamW(), options), absl::OkStatus());
  EXPECT_EQ(run.step().gradients.size(), 2u);
  EXPECT_EQ(run.step().towers[0].variables.size(), 2u);
  for (int id = 0; id < run.graph().size(); ++id) {
    const Node& node = run.graph().node(id);
    const Node* const of = node.computed_for();
    EXPECT_FALSE(node.phase() != Phase::kForward && of != nullptr &&
                 (of->op().name == "Tanh" || absl::StrContains(of->name(), "encoder/")))
        << node.name() << " for " << of->name();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FrozenTrunk,
    testing::Values(FrozenCase{"one", "cpu:1", {}}, FrozenCase{"three", "cpu:3", {}},
                    FrozenCase{"sharded", "cpu:3", {.bucket_bytes = 64, .shard_optimizer = true}},
                    FrozenCase{"others", "cpu:2", {.frozen = {"encoder/b*"}, .trainable = {"head/w*", "*/biases"}}},
                    FrozenCase{"parameter_device", "cpu:2", {.variable_update = VariableUpdate::kParameterDevice}}),
    [](const auto& info) { return info.param.name; });

// The loss of the mean of a normalised column, whose weight is trained.
struct NormalisedColumn {
  static absl::StatusOr<Output> Loss(const Scope& tower, const Batch& batch) {
    const Output y = BatchNorm(tower.VariableScope("trunk"), "bn", batch["x"], {.momentum = 0.5, .epsilon = 0});
    const Variable calls = GetVariable(tower.VariableScope("trunk"), "calls", {}, ZerosInitializer(),
                                       {.dtype = DType::kInt64, .trainable = false});
    tower.AddToCollection(kUpdateOps, ops::Increment(tower.ColocateWith(calls.node()), calls));
    const Variable weight = GetVariable(tower.VariableScope("head"), "weight", {1}, ConstantInitializer(3));
    return ops::Mean(tower, ops::Mul(tower, y, weight));
  }
};

class FrozenNorm : public testing::TestWithParam<BatchNormPolicy> {};

TEST_P(FrozenNorm, NormalisesWithItsAveragesAndKeepsThem) {
  const DeviceSet devices = DeviceSet::Open("cpu:2", {.cpu_threads = 1}).value();
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {1}}};
  for (const bool frozen : {true, false}) {
    Graph graph(BuiltinOps());
    ReplicateOptions options{.batch_norm = GetParam()};
    if (frozen)
      (GetParam() == BatchNormPolicy::kPerTower ? options.trainable : options.frozen) = {
          GetParam() == BatchNormPolicy::kPerTower ? "head/*" : "trunk/*"};
    const TrainStep step = ReplicateTowers(Scope(graph), devices, fields, NormalisedColumn::Loss,
                                           optim::GradientDescent({.learning_rate = 0.5}), options);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const auto session = Session::Create(graph, devices, {.timeout = absl::Seconds(60)}).value();
    ASSERT_EQ(session->RunTarget(step.initialize), absl::OkStatus());
    for (int replica = 0; replica < 2; ++replica) {
      const auto write = [&](const char* name, float value) {
        return session->WriteVariable(graph.FindVariable(name, replica), Tensor::Of<float>({value}, {1}));
      };
      ASSERT_EQ(write("trunk/bn/moving_mean", 2), absl::OkStatus());
      ASSERT_EQ(write("trunk/bn/moving_variance", 16), absl::OkStatus());
    }
    const std::vector<Feed> feeds = {{step.towers[0].batch["x"], Tensor::Of<float>({2, 6}, {2, 1})},
                                     {step.towers[1].batch["x"], Tensor::Of<float>({10, -8, 0, 14}, {4, 1})}};
    const auto loss = session->Run(feeds, {step.loss}, {step.update});
    ASSERT_EQ(loss.status(), absl::OkStatus());
    for (int replica = 0; replica < 2; ++replica) {
      const auto value = [&](const char* name) {
        return session->ReadVariable(graph.FindVariable(name, replica))->ToDoubles()[0];
      };
      if (frozen) {
        EXPECT_FLOAT_EQ((*loss)[0].scalar<float>(), 1.5f);  // 3 (0 + 4 + 8 - 10 - 2 + 12) / 4 / 6
        EXPECT_FLOAT_EQ(value("head/weight"), 2.75f);
        EXPECT_EQ(value("trunk/calls"), 0);
      }
      if (frozen || replica == 0) {
        EXPECT_EQ(value("trunk/bn/moving_mean") == 2, frozen);
        EXPECT_EQ(value("trunk/bn/moving_variance") == 16, frozen);
      }
      EXPECT_EQ(value("trunk/bn/gamma") == 1 && value("trunk/bn/beta") == 0, frozen);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FrozenNorm,
                         testing::Values(BatchNormPolicy::kPerTower, BatchNormPolicy::kSynchronised));

// One of two steps moves what the other freezes; either may be the first.
TEST(FrozenTest, AveragesThatOneReplicaAloneMovesAreAnError) {
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {1}}};
  for (const bool frozen_first : {false, true}) {
    const auto build = [&](const char* spec, BatchNormPolicy policy, int series) {
      const DeviceSet devices = DeviceSet::Open(spec, {.cpu_threads = 1}).value();
      Graph graph(BuiltinOps());
      for (const bool frozen : {frozen_first, !frozen_first}) {
        ReplicateOptions options{.name = frozen ? "frozen" : "moves", .micro_batches = series, .batch_norm = policy};
        if (frozen) options.frozen = {"trunk/*"};
        ReplicateTowers(Scope(graph).ReuseVariables(Reuse::kIfPresent), devices, fields, NormalisedColumn::Loss,
                        optim::GradientDescent(), options);
      }
      return std::string(graph.status().message());
    };
    EXPECT_THAT(build("cpu:2", BatchNormPolicy::kPerTower, 1),
                AllOf(HasSubstr("trunk/bn/moving_mean is frozen in one training step"), HasSubstr("kSynchronised")));
    EXPECT_THAT(build("cpu:2", BatchNormPolicy::kPerTower, 2), HasSubstr("is frozen in one training step"));
    EXPECT_EQ(build("cpu:2", BatchNormPolicy::kSynchronised, 1), "");
    EXPECT_EQ(build("cpu:1", BatchNormPolicy::kPerTower, 1), "");
    EXPECT_EQ(build("cpu:1", BatchNormPolicy::kPerTower, 4), "");
  }
}

std::string FrozenError(std::vector<std::string> patterns, std::vector<std::string> trainable = {}) {
  Trajectory run;
  const ReplicateOptions options{.frozen = std::move(patterns), .trainable = std::move(trainable)};
  return std::string(run.Open("cpu:2", optim::GradientDescent(), options).message());
}

TEST(FrozenTest, PatternsThatCannotBe) {
  EXPECT_THAT(FrozenError({"encoder/*", "decoder/*"}),
              AllOf(HasSubstr("ReplicateOptions::frozen (--freeze): the pattern 'decoder/*' matches no variable"),
                    HasSubstr("[encoder/biases, encoder/weights, head/biases, head/weights]")));
  EXPECT_THAT(FrozenError({"*"}), HasSubstr("the patterns * match all trainable variables"));
  EXPECT_EQ(FrozenError({}), "");
  EXPECT_THAT(FrozenError({}, {"head/*", "decoder/*"}),
              HasSubstr("ReplicateOptions::trainable (--trainable): the pattern 'decoder/*' matches no variable"));
  EXPECT_THAT(FrozenError({"head/*"}, {"head/*"}), HasSubstr("match no trainable variable of the model that is not"));
}

// Two models in one graph: what one step freezes, the other trains.
TEST(FrozenTest, IsOfOneStep) {
  Graph graph(BuiltinOps());
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {3}}, {"y", DType::kFloat32, {1}}};
  const Scope root(graph);
  const TrainStep head = ReplicateTowers(root, devices, fields, Trajectory::Loss, optim::GradientDescent(),
                                         {.name = "head", .frozen = {"encoder/*"}});
  const TrainStep all = ReplicateTowers(root.ReuseVariables(Reuse::kIfPresent), devices, fields, Trajectory::Loss,
                                        optim::GradientDescent(), {.name = "all"});
  ASSERT_EQ(graph.status(), absl::OkStatus());
  EXPECT_EQ(head.towers[0].variables.size(), 2u);
  EXPECT_EQ(all.towers[0].variables.size(), 4u);
  const Variable weights = graph.FindVariable("encoder/weights", 0);
  EXPECT_TRUE(IsFrozen(head.towers[0].scope.NameScope("deep"), weights));
  EXPECT_FALSE(IsFrozen(all.towers[0].scope, weights));
}

}  // namespace
}  // namespace belfry::models
