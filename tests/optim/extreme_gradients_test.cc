// Norms of gradients whose squares overflow or vanish.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/training.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::IsNan;

class ExtremeGradients : public ::testing::Test {
 protected:
  std::vector<double> Value(Output output) { return GraphRunner(graph_).Run({output})[0].ToDoubles(); }
  void ExpectValue(Output output, const std::vector<double>& expected) {
    const std::vector<double> found = Value(output);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const double rounding = std::numeric_limits<float>::denorm_min();
      EXPECT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i]) + (std::abs(expected[i]) > 1e-45 ? rounding : 0));
    }
  }

  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
};

TEST_F(ExtremeGradients, GlobalNorm) {
  const double root2 = std::sqrt(2.0);
  for (const float size : {1e-44f, 1e-40f, 1e-25f, 1e20f, 1e25f, 2e38f}) {
    const Output x = ops::Const(root_, {size, -size});
    ExpectValue(ops::GlobalNorm(root_, {x}), {size * root2});
    ExpectValue(ops::GlobalNorm(root_, {x, x}, DType::kFloat64), {size * 2.0});
  }
  for (const double size : {1e-320, 1e-200, 1e200, 1e307}) {
    const Output x = ops::Const(root_, {size, -size}), y = ops::Const(root_, {0.0});
    ExpectValue(ops::GlobalNorm(root_, {x, y}, DType::kFloat64), {size * root2});
  }
}

TEST_F(ExtremeGradients, AreClippedToTheNorm) {
  const double part = std::sqrt(0.5);
  for (const float size : {1e20f, 1e25f, 3.4e38f}) {
    const Output x = ops::Const(root_, {size, -size});
    for (const double clip_norm : {1.0, 1e-6}) {
      ExpectValue(ClipByNorm(root_, {x}, clip_norm)[0], {part * clip_norm, -part * clip_norm});
      const std::vector<Output> clipped = ClipByGlobalNorm(root_, {x, x}, clip_norm).gradients;
      for (const Output& gradient : clipped) ExpectValue(gradient, {clip_norm / 2, -clip_norm / 2});
    }
  }
  for (const double size : {1e200, 1e307}) {
    ExpectValue(ClipByNorm(root_, {ops::Const(root_, {size, -size})}, 1)[0], {part, -part});
  }
  ExpectValue(ClipByNorm(root_, {ops::Const(root_, {1e-25f, -1e-25f})}, 1e-30)[0], {part * 1e-30, -part * 1e-30});
}

TEST_F(ExtremeGradients, OneThatIsNotFiniteShowsInAll) {
  const Output large = ops::Const(root_, {1e25f}), none = ops::Const(root_, {std::numeric_limits<float>::quiet_NaN()});
  for (const Output& gradient : ClipByGlobalNorm(root_, {large, none}, 1).gradients) {
    EXPECT_THAT(Value(gradient), Each(IsNan()));
  }
}

TEST_F(ExtremeGradients, LarsTakesTheRatioOfTheNorms) {
  const Lars lars({.learning_rate = 1, .momentum = 0, .trust_coefficient = 0.5, .weight_decay = 0, .adapts = nullptr});
  for (const auto& [v, g] : std::vector<std::pair<float, float>>{{1e20f, 1.f}, {1.f, 1e30f}, {1e-25f, 1.f}}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Variable variable = GetVariable(scope, "weights", {4}, ConstantInitializer(v));
    const Output updated = lars.Apply(scope, variable, ops::Const(scope, {g, g, g, g}));
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    GraphRunner runner(graph);
    for (double value : runner.Run({updated})[0].ToDoubles()) EXPECT_NEAR(value / v, 0.5, 1e-6) << v << ", " << g;
  }
}

// Zeros have no norm to be scaled to: the step is the one without `normalise`.
TEST_F(ExtremeGradients, VariablesOfZerosTakeAStep) {
  const auto stepped = [](const Optimizer& optimizer, float g) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Variable variable = GetVariable(scope, "weights", {2, 2}, ZerosInitializer());
    const Output updated = optimizer.Apply(scope, variable, ops::Const(scope, {g, 0.f, 0.f, g}, {2, 2}));
    return GraphRunner(graph).Run({updated})[0].ToDoubles();
  };
  EXPECT_LT(stepped(Muon(), 1)[0], -0.01);
  for (const float g : {0.f, 1.f}) {
    EXPECT_EQ(stepped(Muon({.normalise = true}), g), stepped(Muon(), g));
    for (const double v : stepped(Lars({.adapts = nullptr}), g)) EXPECT_TRUE(std::isfinite(v));
    for (const double v : stepped(Lamb({.adapts = nullptr}), g)) EXPECT_TRUE(std::isfinite(v));
  }
}

}  // namespace
}  // namespace belfry::optim
