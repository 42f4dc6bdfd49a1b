// Optimizers on a small least-squares problem: 20 steps of the graph, compared with the formulas in double.
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "framework/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/adam.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "optim/lars.h"
#include "optim/rmsprop.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using Vector = std::vector<double>;

constexpr int kSize = 6;
constexpr int kSteps = 20;
const Vector kTarget = {1, -2, 0.5, 3, -0.25, 0};
const Vector kCurvature = {1, 0.5, 2, 0.1, 4, 1};

// The gradient of the loss sum(curvature / 2 (v - target)^2); v starts at 1/2.
Vector Slope(const Vector& v) {
  Vector gradient(kSize);
  for (int i = 0; i < kSize; ++i) gradient[i] = kCurvature[i] * (v[i] - kTarget[i]);
  return gradient;
}

Vector Train(const Optimizer& optimizer, const std::vector<std::string>& slots) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Variable v =
      GetVariable(root.VariableScope("layer"), "weights", {2, 3}, ConstantInitializer(0.5), {.dtype = DType::kFloat64});
  const Shape shape{2, 3};
  const Output target = ops::Const(root, Tensor::Of<double>(absl::MakeConstSpan(kTarget), shape));
  const Output curvature = ops::Const(root, Tensor::Of<double>(absl::MakeConstSpan(kCurvature), shape));
  const Output loss =
      ops::Scale(root, ops::Sum(root, ops::Mul(root, curvature, ops::Square(root, ops::Sub(root, v, target)))), 0.5);
  const Node* train = ApplyGradients(root, optimizer, ComputeGradients(root, loss, TrainableVariables(root)));
  EXPECT_EQ(graph.variables().size(), slots.size() + 2 + (optimizer.count_slot(v).empty() ? 0 : 1));
  for (const std::string& slot : slots) {
    const Variable found = graph.FindVariable("layer/weights/" + slot, 0);
    EXPECT_TRUE(found.valid() && !found.trainable() && found.def().slot_of == &v.def()) << slot;
  }
  GraphRunner runner(graph);
  for (int step = 0; step < kSteps; ++step) runner.RunTarget(train);
  EXPECT_THAT(runner.Value(graph.FindVariable("global_step", 0)), ::testing::ElementsAre(kSteps));
  return runner.Value(v);
}

// The same steps with `update(v, slot a, slot b, gradient, t)`, where t counts from 1.
Vector Reference(const std::function<void(double& v, double& a, double& b, double g, int t)>& update, double a0 = 0,
                 double decay = 0) {
  Vector v(kSize, 0.5), a(kSize, a0), b(kSize, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const Vector gradient = Slope(v);
    for (int i = 0; i < kSize; ++i) update(v[i], a[i], b[i], gradient[i] + decay * v[i], t);
  }
  return v;
}

void ExpectNear(const Vector& actual, const Vector& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  // The rate is rounded to float32 on the way.
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-9) << i;
}

// Exact in float32, as are its products in the schedules below.
constexpr double kRate = 0.125;

TEST(TrajectoryTest, GradientDescent) {
  ExpectNear(Train(GradientDescent({.learning_rate = kRate, .weight_decay = 0.25}), {}),
             Reference([](double& v, double&, double&, double g, int) { v -= kRate * g; }, 0, 0.25));
}

TEST(TrajectoryTest, GradientDescentWithASchedule) {
  ExpectNear(Train(Sgd({.learning_rate = Piecewise({9}, {kRate, kRate / 4})}), {}),
             Reference([](double& v, double&, double&, double g, int t) { v -= (t <= 10 ? kRate : kRate / 4) * g; }));
}

TEST(TrajectoryTest, Momentum) {
  ExpectNear(Train(Momentum({.learning_rate = kRate, .momentum = 0.9f}), {"Momentum"}),
             Reference([](double& v, double& a, double&, double g, int) {
               a = double{0.9f} * a + g;
               v -= kRate * a;
             }));
}

TEST(TrajectoryTest, NesterovMomentum) {
  ExpectNear(Train(Momentum({.learning_rate = kRate, .momentum = 0.8, .use_nesterov = true}), {"Momentum"}),
             Reference([](double& v, double& a, double&, double g, int) {
               a = 0.8 * a + g;
               v -= kRate * (g + 0.8 * a);
             }));
}

TEST(TrajectoryTest, RMSProp) {
  ExpectNear(Train(RMSProp({.learning_rate = kRate, .decay = 0.8, .momentum = 0.5, .epsilon = 1e-4}),
                   {"RMSProp", "RMSProp_1"}),
             Reference(
                 [](double& v, double& a, double& b, double g, int) {
                   a = 0.8 * a + 0.2 * g * g;
                   b = 0.5 * b + kRate * g / std::sqrt(a + 1e-4);
                   v -= b;
                 },
                 1));
}

TEST(TrajectoryTest, Adagrad) {
  ExpectNear(Train(Adagrad({.learning_rate = kRate, .initial_accumulator = 0.5}), {"Adagrad"}),
             Reference(
                 [](double& v, double& a, double&, double g, int) {
                   a += g * g;
                   v -= kRate * g / std::sqrt(a);
                 },
                 0.5));
}

void AdamReference(double& v, double& a, double& b, double g, int t) {
  a = 0.9 * a + 0.1 * g;
  b = 0.99 * b + 0.01 * g * g;
  v -= kRate * std::sqrt(1 - std::pow(0.99, t)) / (1 - std::pow(0.9, t)) * a / (std::sqrt(b) + 1e-6);
}

TEST(TrajectoryTest, Adam) {
  ExpectNear(
      Train(Adam({.learning_rate = kRate, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1}), {"Adam", "Adam_1"}),
      Reference(AdamReference, 0, 0.1));
}

TEST(TrajectoryTest, AdamW) {
  ExpectNear(
      Train(AdamW({.learning_rate = kRate, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1}), {"AdamW", "AdamW_1"}),
      Reference([](double& v, double& a, double& b, double g, int t) {
        v *= 1 - kRate * 0.1;
        AdamReference(v, a, b, g, t);
      }));
}

TEST(TrajectoryTest, Lars) {
  Vector v(kSize, 0.5), a(kSize, 0);
  const auto norm = [](const Vector& x) {
    double sum = 0;
    for (double e : x) sum += e * e;
    return std::sqrt(sum);
  };
  for (int t = 1; t <= kSteps; ++t) {
    const Vector g = Slope(v);
    const double trust = 0.05 * norm(v) / (norm(g) + 0.01 * norm(v));
    for (int i = 0; i < kSize; ++i) a[i] = 0.9 * a[i] + kRate * trust * (g[i] + 0.01 * v[i]);
    for (int i = 0; i < kSize; ++i) v[i] -= a[i];
  }
  ExpectNear(Train(Lars({.learning_rate = kRate, .trust_coefficient = 0.05, .weight_decay = 0.01}), {"Lars"}), v);
}

TEST(TrajectoryTest, FiltersChooseWhatDecays) {
  const auto never = [](const Variable&) { return false; };
  ExpectNear(Train(GradientDescent({.learning_rate = kRate, .weight_decay = 0.25, .decays = never}), {}),
             Reference([](double& v, double&, double&, double g, int) { v -= kRate * g; }));
  ExpectNear(Train(Lars({.learning_rate = kRate, .momentum = 0.5, .weight_decay = 0.25, .adapts = never}), {"Lars"}),
             Reference([](double& v, double& a, double&, double g, int) {
               a = 0.5 * a + kRate * g;
               v -= a;
             }));
}

TEST(TrajectoryTest, AdagradNeedsAPositiveStart) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Variable v = GetVariable(root, "v", {2}, ZerosInitializer());
  EXPECT_FALSE(Adagrad({.initial_accumulator = 0}).Apply(root, v, v).valid());
  EXPECT_THAT(std::string(graph.status().message()), ::testing::HasSubstr("initial_accumulator"));
}

}  // namespace
}  // namespace belfry::optim
