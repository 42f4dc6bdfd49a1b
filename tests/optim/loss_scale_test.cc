#include "optim/loss_scale.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <limits>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"
#include "optim/adam.h"
#include "optim/global_step.h"
#include "optim/moving_average.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class LossScaleTest : public ::testing::Test {
 protected:
  // A training step of Adam with averages, on a loss whose gradient is fed.
  void BuildStep(const LossScaleOptions& options) {
    const LossScale scale(options);
    weights_ = GetVariable(root_, "weights", {2}, ConstantInitializer(3));
    slope_ = ops::Placeholder(root_, DType::kFloat32, {2});
    const Output loss = ops::Sum(root_, ops::Mul(root_, weights_, slope_));
    const auto gradients = ComputeGradients(root_, scale.Scale(root_, loss), {weights_});
    const auto [unscaled, finite] = scale.Unscale(root_, gradients);
    gradient_ = unscaled[0].gradient;
    const Scope guarded = root_.OnlyIf(finite);
    const Node* applied = ApplyGradients(guarded, Adam({.learning_rate = 0.5}), unscaled);
    const Node* averaged = ExponentialMovingAverage().Update(guarded, {weights_}, {Output{applied, 0}});
    step_ = ops::Group(root_, {averaged, scale.Update(root_, finite).node});
    scale_ = scale.Value(root_);
    skipped_ = scale.SkippedSteps(root_);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  }
  // Returns the gradient.
  Tensor Run(GraphRunner& runner, double slope) {
    return runner.Run({gradient_}, {step_}, {{slope_.node, Tensor::Of<float>({1, static_cast<float>(slope)})}})[0];
  }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
  Variable weights_, scale_, skipped_;
  Output slope_, gradient_;
  const Node* step_ = nullptr;
};

TEST_F(LossScaleTest, FollowsTheRule) {
  BuildStep({.initial = 16, .min_scale = 4, .max_scale = 64, .growth_interval = 3});
  GraphRunner runner(graph_);
  double scale = 16;
  int64_t good = 0, skipped = 0;
  for (const char what : std::string("gggggggggggbbbbbbggbgggnbgggg")) {
    const double slope = what == 'g' ? 2 : what == 'b' ? kInfinity : NAN;
    Run(runner, slope);
    if (what == 'g') {
      ++good;
      if (good == 3) scale = std::min(2 * scale, 64.0), good = 0;
    } else {
      scale = std::max(scale / 2, 4.0);
      good = 0;
      ++skipped;
    }
    EXPECT_THAT(runner.Value(scale_), ElementsAre(scale));
    EXPECT_THAT(runner.Value(skipped_), ElementsAre(skipped));
    EXPECT_THAT(runner.Value(graph_.FindVariable("loss_scale/good_steps", 0)), ElementsAre(good));
  }
}

TEST_F(LossScaleTest, ThatIsFixedStays) {
  BuildStep({.initial = 24, .dynamic = false, .growth_interval = 1});
  GraphRunner runner(graph_);
  for (const double slope : {1.0, 2.0, kInfinity, 3.0}) {
    Run(runner, slope);
    EXPECT_THAT(runner.Value(scale_), ElementsAre(24));
  }
  EXPECT_THAT(runner.Value(skipped_), ElementsAre(1));
  EXPECT_THAT(runner.Value(GlobalStep(root_)), ElementsAre(3));
}

TEST_F(LossScaleTest, ASkippedStepChangesNothingElse) {
  BuildStep({});
  GraphRunner runner(graph_);
  for (int i = 0; i < 3; ++i) Run(runner, 1.5);
  EXPECT_THAT(runner.Value(GlobalStep(root_)), ElementsAre(3));
  std::vector<std::vector<double>> before;
  for (const Variable& variable : graph_.variables()) before.push_back(runner.Value(variable));
  EXPECT_EQ(before.size(), 9u);  // weights, three slots, an average, the global step, the scale and its counts
  for (const double slope : {kInfinity, -kInfinity, static_cast<double>(NAN)}) Run(runner, slope);
  for (size_t i = 0; i < before.size(); ++i) {
    const Variable variable = graph_.variables()[i];
    if (variable.name().rfind("loss_scale", 0) == 0) continue;
    EXPECT_EQ(runner.Value(variable), before[i]) << variable.name();
  }
  EXPECT_THAT(runner.Value(skipped_), ElementsAre(3));
  Run(runner, 1.5);
  EXPECT_THAT(runner.Value(GlobalStep(root_)), ElementsAre(4));
}

TEST_F(LossScaleTest, GradientsAreThoseOfTheLoss) {
  BuildStep({.initial = 4096});
  GraphRunner runner(graph_);
  EXPECT_THAT(Run(runner, -0.375).ToDoubles(), ElementsAre(1, -0.375));
}

TEST_F(LossScaleTest, OfGradientsOfSeveralTypes) {
  const LossScale scale({.initial = 0x1p20});  // overflows in float16
  const Variable half = GetVariable(root_, "half", {}, ConstantInitializer(1), {.dtype = DType::kFloat16});
  const Variable wide = GetVariable(root_, "wide", {}, ConstantInitializer(1), {.dtype = DType::kFloat64});
  const Output a = ops::Fill(root_, {}, 1024, DType::kFloat16), b = ops::Fill(root_, {}, 0x1p21, DType::kFloat64);
  const auto [unscaled, finite] = scale.Unscale(root_, {{a, half}, {b, wide}, {Output(), half}});
  const auto [bad, found] = scale.Unscale(root_, {{a, half}, {ops::Fill(root_, {}, NAN, DType::kFloat64), wide}});
  GraphRunner runner(graph_);
  const auto values = runner.Run({unscaled[0].gradient, unscaled[1].gradient, finite, found});
  EXPECT_EQ(values[0].ToDoubles()[0], 0x1p-10);
  EXPECT_EQ(values[0].dtype(), DType::kFloat16);
  EXPECT_EQ(values[1].ToDoubles()[0], 2);
  EXPECT_TRUE(values[2].scalar<bool>());
  EXPECT_FALSE(values[3].scalar<bool>());
  EXPECT_FALSE(unscaled[2].gradient.valid());
}

TEST_F(LossScaleTest, RefusesOptionsOutOfRange) {
  for (const LossScaleOptions& options :
       {LossScaleOptions{.initial = 0}, LossScaleOptions{.initial = NAN}, LossScaleOptions{.initial = 0.5},
        LossScaleOptions{.initial = 0x1p25}, LossScaleOptions{.min_scale = 0}, LossScaleOptions{.max_scale = kInfinity},
        LossScaleOptions{.growth_interval = 0}, LossScaleOptions{.initial = -1, .dynamic = false}}) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(LossScale(options).Value(Scope(graph)).valid());
    EXPECT_THAT(graph.status().message(), HasSubstr("loss scale"));
  }
}

TEST(ParseLossScale, TakesWhatItSays) {
  EXPECT_FALSE(ParseLossScale("none")->has_value());
  EXPECT_TRUE(ParseLossScale("dynamic")->value().dynamic);
  ASSERT_OK_AND_ASSIGN(const auto fixed, ParseLossScale("128"));
  EXPECT_FALSE(fixed->dynamic);
  EXPECT_EQ(fixed->initial, 128);
  for (const char* text : {"", "0", "-1", "nan", "inf", "1e40", "128x", "Dynamic"}) {
    EXPECT_EQ(ParseLossScale(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace belfry::optim
