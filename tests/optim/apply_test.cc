#include "optim/apply.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ApplyTest : public ::testing::Test {
 protected:
  Variable Make(const Scope& scope, const char* name, const Shape& shape = {2}) {
    return GetVariable(scope, name, shape, ConstantInitializer(1));
  }
  std::string Message() const { return std::string(graph_.status().message()); }

  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
  Momentum momentum_{{.learning_rate = 0.5}};
};

TEST_F(ApplyTest, VariablesWithoutGradientStay) {
  const Variable a = Make(root_, "a"), b = Make(root_, "b");
  const Node* train = ApplyGradients(root_, momentum_, {{ops::OnesLike(root_, a), a}, {Output(), b}});
  GraphRunner runner(graph_);
  runner.RunTarget(train);
  EXPECT_THAT(runner.Value(a), ElementsAre(0.5, 0.5));
  EXPECT_THAT(runner.Value(b), ElementsAre(1, 1));
  EXPECT_FALSE(graph_.FindVariable("b/Momentum", 0).valid());
}

TEST_F(ApplyTest, UpdatesLiveWithTheirVariableAndPrecedeTheStep) {
  const Scope tower = root_.Device("/cpu:1");
  const Variable a = Make(tower, "a");
  const Output update = momentum_.Apply(tower, a, ops::OnesLike(tower, a));
  EXPECT_EQ(update.node->name(), "update_a");
  EXPECT_THAT(update.node->colocated_with(), ElementsAre(&a.node()));
  const Variable step = graph_.FindVariable("global_step", 0);
  EXPECT_EQ(step.node().requested_device(), a.node().requested_device());
  EXPECT_THAT(update.node->location().file, HasSubstr("apply_test.cc"));
}

TEST_F(ApplyTest, ReplicasHaveTheirOwnSlotsAndSteps) {
  for (int replica : {0, 1}) {
    const Scope tower = root_.Replica(replica);
    const Variable a = Make(tower, "a");
    EXPECT_NE(ApplyGradients(root_, momentum_, {{ops::OnesLike(tower, a), a}}), nullptr);
    EXPECT_TRUE(graph_.FindVariable("a/Momentum", replica).valid());
    EXPECT_TRUE(graph_.FindVariable("global_step", replica).valid());
  }
}

TEST_F(ApplyTest, NoVariables) {
  const int line = __LINE__ + 1;
  EXPECT_EQ(ApplyGradients(root_, momentum_, {}), nullptr);
  EXPECT_EQ(Message(), absl::StrCat("No variables provided. (tests/optim/apply_test.cc:", line, ")"));
}

TEST_F(ApplyTest, NothingToOptimize) {
  const int line = __LINE__ + 1;
  EXPECT_TRUE(ComputeGradients(root_, ops::Const(root_, 1.0f), TrainableVariables(root_)).empty());
  EXPECT_EQ(Message(), absl::StrCat("No variables to optimize. (tests/optim/apply_test.cc:", line, ")"));
}

TEST_F(ApplyTest, NothingToOptimizeInThisReplica) {
  Make(root_, "a");
  ComputeGradients(root_.Replica(1), ops::Const(root_, 1.0f), TrainableVariables(root_.Replica(1)));
  EXPECT_THAT(Message(), HasSubstr("the graph has 1 trainable variables, but none of replica 1"));
}

TEST_F(ApplyTest, NoGradients) {
  EXPECT_EQ(ApplyGradients(root_, momentum_, {{Output(), Make(root_, "a")}, {Output(), Make(root_, "b")}}), nullptr);
  EXPECT_THAT(Message(), HasSubstr("No gradients provided for any variable"));
  EXPECT_THAT(Message(), HasSubstr("[a, b]"));
}

TEST_F(ApplyTest, AVariableTwice) {
  const Variable a = Make(root_, "a");
  const Output g = ops::OnesLike(root_, a);
  EXPECT_EQ(ApplyGradients(root_, momentum_, {{g, a}, {g, a}}), nullptr);
  EXPECT_THAT(Message(), HasSubstr("a would be updated twice"));
}

TEST_F(ApplyTest, SeveralReplicas) {
  const Variable a = Make(root_, "a"), b = Make(root_.Replica(1), "b");
  EXPECT_EQ(ApplyGradients(root_, momentum_, {{ops::OnesLike(root_, a), a}, {ops::OnesLike(root_, b), b}}), nullptr);
  EXPECT_THAT(Message(), HasSubstr("different replicas"));
}

TEST_F(ApplyTest, TrainableVariablesOfTheVariableScope) {
  const Variable a = Make(root_.VariableScope("model"), "a"), b = Make(root_.VariableScope("model_2"), "b");
  EXPECT_THAT(TrainableVariables(root_.VariableScope("model")), ::testing::ElementsAre(a));
  EXPECT_THAT(TrainableVariables(root_), ::testing::ElementsAre(a, b));
}

TEST_F(ApplyTest, TrainableVariablesOfTheReplica) {
  const Variable a = Make(root_, "a");
  GetVariable(root_, "fixed", {}, ZerosInitializer(), {.trainable = false});
  const Variable other = Make(root_.Replica(1), "a");
  EXPECT_THAT(TrainableVariables(root_), ElementsAre(a));
  EXPECT_THAT(TrainableVariables(root_.Replica(1)), ElementsAre(other));
}

TEST_F(ApplyTest, L2RegularizationIsHalfTheSumOfSquares) {
  const Variable w = GetVariable(root_, "w", {2, 3}, ConstantInitializer(2));
  const Variable b = GetVariable(root_, "b", {3}, ConstantInitializer(5));
  const Output weights = L2Regularization(root_, {w, b}, 0.25);
  const Output all = L2Regularization(root_, {w, b}, 0.25, nullptr);
  const Output none = L2Regularization(root_, {b}, 0.25);
  const auto gradients = ComputeGradients(root_, weights, {w});
  GraphRunner runner(graph_);
  const std::vector<Tensor> values = runner.Run({weights, all, none, gradients[0].gradient});
  EXPECT_FLOAT_EQ(values[0].scalar<float>(), 0.125f * 24);
  EXPECT_FLOAT_EQ(values[1].scalar<float>(), 0.125f * (24 + 75));
  EXPECT_EQ(values[2].scalar<float>(), 0);
  EXPECT_THAT(values[3].ToDoubles(), ::testing::Each(0.5));
}

// Its first update is the rate (Kingma and Ba, 2015), whatever steps the graph has taken before.
TEST_F(ApplyTest, AdamCountsTheUpdatesOfEachVariable) {
  const double rate = 0.125;
  const Adam adam({.learning_rate = rate, .beta1 = 0.75, .beta2 = 0.875, .epsilon = 0});
  const AdamW adamw({.learning_rate = rate, .beta1 = 0.75, .beta2 = 0.875, .epsilon = 0, .weight_decay = 0});
  for (const Optimizer* optimizer : std::initializer_list<const Optimizer*>{&adam, &adamw}) {
    Graph graph(BuiltinOps());
    const Scope root(graph);
    const Variable a = Make(root, "a"), b = Make(root, "b");
    const Output gradient = ops::Placeholder(root, DType::kFloat32, {2});
    const Node* train_a = ApplyGradients(root, *optimizer, {{gradient, a}});
    const Node* train_b = ApplyGradients(root, *optimizer, {{gradient, b}});
    const Node* skip_b =
        ApplyGradients(root.OnlyIf(ops::Const<bool>(root, false)), *optimizer, {{ops::Scale(root, gradient, 1), b}});
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    GraphRunner runner(graph);
    struct Moments {
      double v = 1, m = 0, s = 0;
      int t = 0;
    } of_a, of_b;
    const auto step = [&](const Node* train, Moments& of, double g) {
      runner.RunTarget(train,
                       {{gradient.node, Tensor::Of<float>({static_cast<float>(g), static_cast<float>(g)}, {2})}});
      ++of.t;
      of.m = 0.75 * of.m + 0.25 * g;
      of.s = 0.875 * of.s + 0.125 * g * g;
      of.v -= rate * std::sqrt(1 - std::pow(0.875, of.t)) / (1 - std::pow(0.75, of.t)) * of.m / std::sqrt(of.s);
    };
    for (int i = 0; i < 5; ++i) step(train_a, of_a, 1 + i);
    runner.RunTarget(skip_b, {{gradient.node, Tensor::Of<float>({1, 1}, {2})}});
    step(train_b, of_b, 3);
    EXPECT_NEAR(of_b.v, 1 - rate, 1e-12);
    EXPECT_NEAR(runner.Value(b)[1], 1 - rate, 1e-6);
    step(train_b, of_b, -2);
    step(train_a, of_a, 0.5);
    EXPECT_NEAR(runner.Value(a)[0], of_a.v, 1e-6);
    EXPECT_NEAR(runner.Value(b)[0], of_b.v, 1e-6);
    EXPECT_THAT(runner.Value(graph.FindVariable("global_step", 0)), ElementsAre(8));
    const std::string slot(optimizer->count_slot(a));
    EXPECT_THAT(runner.Value(graph.FindVariable("a/" + slot, 0)), ElementsAre(6));
    EXPECT_THAT(runner.Value(graph.FindVariable("b/" + slot, 0)), ElementsAre(2));
  }
}

}  // namespace
}  // namespace belfry::optim
