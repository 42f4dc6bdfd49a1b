// Variables that are frozen until a step, and then trained.
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "framework/runtime/saver.h"
#include "models/layers/batch_norm.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/lookahead.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"
#include "tests/models/towers/trajectory_fixture.h"

namespace belfry::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kFrozenSteps = 4;

struct FrozenUntilCase {
  std::string name, devices;
  ReplicateOptions options;
};

using Values = std::map<std::string, Tensor>;

class FrozenUntilTest : public testing::TestWithParam<FrozenUntilCase> {
 protected:
  static absl::Status Open(Trajectory& run, const std::vector<FrozenUntil>& until,
                           const std::vector<std::string>& frozen = {}, bool scaled = false) {
    ReplicateOptions options = GetParam().options;
    options.frozen_until = until;
    options.frozen = frozen;
    options.moving_average = 0.9;
    options.clip_global_norm = 0.1;  // of gradients that are larger
    if (scaled) options.loss_scale = optim::LossScaleOptions{.initial = 256};
    const optim::Lookahead optimizer(optim::AdamW({.learning_rate = 0.05, .weight_decay = 0.1}), {.steps = 3});
    return run.Open(GetParam().devices, optimizer, options);
  }
  static Values ValuesOf(Trajectory& run) {
    Snapshot snapshot;
    EXPECT_EQ(snapshot.Take(run.session()), absl::OkStatus());
    Values values;
    for (const io::NamedTensor& tensor : snapshot.tensors()) values[tensor.name] = tensor.value.Clone();
    return values;
  }
  static absl::Status RestoreTo(Trajectory& run, const Values& values) {
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, value] : values) tensors.push_back({name, value});
    return Restore(run.session(), "another run", tensors).status();
  }
  static void ExpectSame(const Values& values, const Values& expected, absl::string_view prefix) {
    int compared = 0;
    for (const auto& [name, value] : expected) {
      if (!absl::StartsWith(name, prefix)) continue;
      ++compared;
      EXPECT_TRUE(SameBits(values.at(name), value)) << name;
    }
    EXPECT_GE(compared, 10) << prefix;
  }
};

TEST_P(FrozenUntilTest, BeforeTheStepItIsAsFrozen) {
  Trajectory run, frozen;
  ASSERT_EQ(Open(run, {{"enc*", kFrozenSteps}}), absl::OkStatus());
  ASSERT_EQ(Open(frozen, {}, {"encoder/*"}), absl::OkStatus());
  const Values before = ValuesOf(run);
  ASSERT_EQ(run.Train(kFrozenSteps), absl::OkStatus());
  ASSERT_EQ(frozen.Train(kFrozenSteps), absl::OkStatus());
  ExpectSame(ValuesOf(run), before, "encoder/");  // with slots, their counts, and averages
  ExpectSame(ValuesOf(run), ValuesOf(frozen), "head/");
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  EXPECT_FALSE(SameBits(ValuesOf(run).at("encoder/weights"), before.at("encoder/weights")));
}

TEST_P(FrozenUntilTest, AfterwardsItTrainsAsIfTheRunBegan) {
  Trajectory run, plain, resumed, early;
  ASSERT_EQ(Open(run, {{"encoder/*", kFrozenSteps}, {"*", 1}}), absl::OkStatus());  // the larger number counts
  ASSERT_EQ(Open(resumed, {{"encoder/*", kFrozenSteps}, {"*", 1}}), absl::OkStatus());
  ASSERT_EQ(Open(early, {{"encoder/*", kFrozenSteps}, {"*", 1}}), absl::OkStatus());
  ASSERT_EQ(Open(plain, {}), absl::OkStatus());
  ASSERT_EQ(run.Train(2), absl::OkStatus());
  ASSERT_EQ(RestoreTo(early, ValuesOf(run)), absl::OkStatus());
  ASSERT_EQ(run.Train(kFrozenSteps - 2), absl::OkStatus());
  ASSERT_EQ(RestoreTo(plain, ValuesOf(run)), absl::OkStatus());
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  ASSERT_EQ(RestoreTo(resumed, ValuesOf(run)), absl::OkStatus());
  ASSERT_EQ(run.Train(3), absl::OkStatus());
  ASSERT_EQ(plain.Train(4), absl::OkStatus());
  ASSERT_EQ(resumed.Train(3), absl::OkStatus());
  ASSERT_EQ(early.Train(kFrozenSteps + 2), absl::OkStatus());
  const Values values = ValuesOf(run);
  for (Trajectory* const other : {&plain, &resumed, &early}) ExpectSame(values, ValuesOf(*other), "");
  EXPECT_EQ(CheckReplicas(run.session(), static_cast<int>(run.step().towers.size())), absl::OkStatus());
}

TEST_P(FrozenUntilTest, SkippedStepsDoNotCount) {
  Trajectory run;
  ASSERT_EQ(Open(run, {{"encoder/*", 2}}, {}, /*scaled=*/true), absl::OkStatus());
  const Values before = ValuesOf(run);
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  ASSERT_EQ(run.Train(2, INFINITY), absl::OkStatus());
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  ExpectSame(ValuesOf(run), before, "encoder/");
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  EXPECT_FALSE(SameBits(ValuesOf(run).at("encoder/weights"), before.at("encoder/weights")));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FrozenUntilTest,
    testing::Values(FrozenUntilCase{"one", "cpu:1", {}}, FrozenUntilCase{"three", "cpu:3", {}},
                    FrozenUntilCase{"series", "cpu:2", {.micro_batches = 2}},
                    FrozenUntilCase{"sharded", "cpu:3", {.bucket_bytes = 64, .shard_optimizer = true}},
                    FrozenUntilCase{
                        "parameter_device", "cpu:2", {.variable_update = VariableUpdate::kParameterDevice}}),
    [](const auto& info) { return info.param.name; });

// The averages of a batch normalisation move in both phases, unlike what is trained of it.
TEST(FrozenUntil, StatisticsMove) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto loss = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output y = BatchNorm(tower.VariableScope("stage1"), "bn", batch["x"], {.momentum = 0.5});
    return ops::Mean(tower, ops::Mul(tower, y, GetVariable(tower, "weight", {1}, ConstantInitializer(3))));
  };
  Graph graph(BuiltinOps());
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {1}}};
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, fields, loss, optim::GradientDescent({.learning_rate = 0.5}),
                      {.frozen_until = {{"stage*", 1}}});
  const auto session = Session::Create(graph, devices).value();
  ASSERT_EQ(session->RunTarget(step.initialize), absl::OkStatus());
  const auto value = [&](const char* name) {
    return session->ReadVariable(graph.FindVariable(name, 0))->ToDoubles()[0];
  };
  for (const double mean : {2., 3.}) {
    ASSERT_EQ(session->RunTarget(step.update, {{step.towers[0].batch["x"], Tensor::Of<float>({2, 6}, {2, 1})}}),
              absl::OkStatus());
    EXPECT_FLOAT_EQ(value("stage1/bn/moving_mean"), mean);             // 0, 2 and 3, half of the way to 4
    EXPECT_EQ(value("stage1/bn/beta"), mean == 2 ? 0 : -1.5) << mean;  // its gradient is the weight
  }
}

TEST(FrozenUntil, WhatCannotBe) {
  const auto error = [](ReplicateOptions options) {
    Trajectory run;
    return std::string(run.Open("cpu:2", optim::GradientDescent(), options).message());
  };
  EXPECT_THAT(
      error({.frozen_until = {{"decoder/*", 5}}}),
      AllOf(HasSubstr("frozen_until (--frozen_until), among what is trained: the pattern 'decoder/*' matches no"),
            HasSubstr("encoder/biases")));
  EXPECT_THAT(error({.frozen = {"encoder/*"}, .frozen_until = {{"encoder/*", 5}}}),
              HasSubstr("the pattern 'encoder/*' matches no variable"));
  EXPECT_THAT(error({.frozen_until = {{"encoder/*", 0}}}), HasSubstr("freezes 'encoder/*' for 0 steps; expected at"));
  EXPECT_EQ(error({.frozen_until = {{"*", 5}}}), "");
}

}  // namespace
}  // namespace belfry::models
