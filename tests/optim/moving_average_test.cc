#include "optim/moving_average.h"
#include "ops/builtin_ops.h"

#include <algorithm>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/state.h"
#include "optim/apply.h"
#include "optim/global_step.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

class MovingAverageTest : public ::testing::Test {
 protected:
  // A step that adds 1 to the weights, then updates the average, then counts the step.
  const Node* BuildStep(const ExponentialMovingAverage& averages) {
    const Output update = ops::AssignAdd(root_, weights_, ops::Const(root_, {1.0, 1.0}));
    const Node* moved = averages.Update(root_, {weights_}, {update});
    const Output count = IncrementGlobalStep(root_.ControlDependencies({moved}), {update});
    return ops::Group(root_, {count});
  }

  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
  Variable weights_ = GetVariable(root_, "weights", {2}, ConstantInitializer(3), {.dtype = DType::kFloat64});
};

TEST_F(MovingAverageTest, BeginsAtTheInitialValue) {
  ExponentialMovingAverage averages;
  BuildStep(averages);
  const Variable average = ExponentialMovingAverage::AverageOf(root_, weights_);
  ASSERT_TRUE(average.valid());
  EXPECT_EQ(average.name(), "weights/ExponentialMovingAverage");
  EXPECT_FALSE(average.trainable());
  EXPECT_THAT(GraphRunner(graph_).Value(average), ElementsAre(3, 3));
}

TEST_F(MovingAverageTest, FollowsItsFormula) {
  for (bool use_step : {true, false}) {
    Graph graph(BuiltinOps());
    Scope root(graph);
    const Variable weights = GetVariable(root, "weights", {2}, ConstantInitializer(3), {.dtype = DType::kFloat64});
    const Output update = ops::AssignAdd(root, weights, ops::Const(root, {1.0, 1.0}));
    const Node* moved =
        ExponentialMovingAverage({.decay = 0.3, .use_step = use_step}).Update(root, {weights}, {update});
    const Node* step = ops::Group(root, {IncrementGlobalStep(root.ControlDependencies({moved}), {update})});
    GraphRunner runner(graph);
    double expected = 3;
    for (int n = 0; n < 12; ++n) {
      runner.RunTarget(step);
      const double decay = use_step ? std::min(0.3, (1.0 + n) / (10.0 + n)) : 0.3;
      expected = decay * expected + (1 - decay) * (4 + n);
      EXPECT_THAT(runner.Value(ExponentialMovingAverage::AverageOf(root, weights)),
                  ::testing::Each(DoubleNear(expected, 1e-12)))
          << n;
    }
  }
}

TEST_F(MovingAverageTest, ANetworkIsBuiltOverTheAverages) {
  const auto make = [](const Scope& scope, const char* name, const Shape& shape) {
    return GetVariable(scope, name, shape, ConstantInitializer(7), {.dtype = DType::kFloat64, .trainable = false});
  };
  const Variable statistics = make(root_, "statistics", {1});
  const Node* step = BuildStep(ExponentialMovingAverage({.decay = 0.5, .use_step = false}));
  const Scope averaged = ExponentialMovingAverage::Averaged(root_);
  const Variable weights = make(averaged, "weights", {2});
  EXPECT_EQ(weights, ExponentialMovingAverage::AverageOf(root_, weights_));
  EXPECT_EQ(make(averaged, "statistics", {1}), statistics);  // which has no average
  GraphRunner runner(graph_);
  runner.RunTarget(step);
  EXPECT_THAT(runner.Value(weights), ElementsAre(3.5, 3.5));
  EXPECT_THAT(runner.Value(weights_), ElementsAre(4, 4));
}

TEST_F(MovingAverageTest, NoVariableIsMadeOverAverages) {
  GetVariable(ExponentialMovingAverage::Averaged(root_), "other", {}, ZerosInitializer());
  EXPECT_THAT(graph_.status().message(), ::testing::HasSubstr("other does not exist, and the scope only reuses"));
}

}  // namespace
}  // namespace belfry::optim
