#include "trainers/pictures/recipe.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/apply.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::trainers {
namespace {

const char* const kNames[] = {"whiten/biases", "group1/conv1/weights", "group1/bn1/beta", "logits/weights"};

// The variables, all of them 2 at first, after two steps with gradients of 3.
std::map<std::string, std::vector<double>> Train(const PictureRecipe& recipe) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<optim::GradientAndVariable> pairs;
  std::vector<Variable> variables;
  for (const std::string name : kNames) {
    const bool weight = name.find("weights") != std::string::npos;
    const Shape shape = weight ? Shape{1, 2} : Shape{2};
    variables.push_back(GetVariable(root, name, shape, ConstantInitializer(2)));
    pairs.push_back({ops::Fill(root, shape, 3), variables.back()});
  }
  const auto optimizer = recipe.MakeOptimizer({.steps = 2}).value();
  EXPECT_TRUE(optimizer->Check(variables).ok()) << optimizer->Check(variables);
  const Node* const train = optim::ApplyGradients(root, *optimizer, pairs);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  optim::GraphRunner runner(graph);
  for (int step = 0; step < 2; ++step) runner.RunTarget(train);
  std::map<std::string, std::vector<double>> values;
  for (const Variable& variable : variables) values[variable.name()] = runner.Value(variable);
  return values;
}

// Nesterov's momentum with rates r and r / 2 in two steps, and a decay of `decay` a step at the peak rate.
double Nesterov(double rate, double decay, double momentum, bool ends = false) {
  double v = 2, a = 0;
  for (int step = 0; step < 2; ++step) {
    const double g = 3 + decay / rate * v, now = ends && step == 1 ? 0 : step == 0 ? rate : rate / 2;
    a = momentum * a + g;
    v -= now * (g + momentum * a);
  }
  return v;
}

// Half of the peak in the second of two steps.
const ScheduleChoice kHalved = {.learning_rate = 0.01, .name = "linear"};

TEST(GroupedRates, GiveEachKindItsRateAndAllTheSameDecay) {
  const auto values = Train({.schedule = kHalved,
                             .optimizer = {.name = "nesterov", .momentum = 0.6},
                             .norm_learning_rate = 0.25,
                             .weight_decay_per_step = 0.002,
                             .whiten_steps = 1});
  EXPECT_NEAR(values.at("group1/conv1/weights")[0], Nesterov(0.01, 0.002, 0.6), 1e-6);
  EXPECT_NEAR(values.at("logits/weights")[1], Nesterov(0.01, 0.002, 0.6), 1e-6);
  EXPECT_NEAR(values.at("group1/bn1/beta")[0], Nesterov(0.25, 0.002, 0.6), 1e-6);
  EXPECT_NEAR(values.at("whiten/biases")[1], Nesterov(0.01, 0.002, 0.6, /*ends=*/true), 1e-6);
}

TEST(GroupedRates, GiveMuonTheHiddenMatrices) {
  const auto values = Train({.schedule = kHalved,
                             .optimizer = {.name = "muon", .momentum = 0.6},
                             .norm_learning_rate = 0.25,
                             .head_learning_rate = 0.5,
                             .weight_decay_per_step = 0.002,
                             .whiten_steps = 1});
  EXPECT_NEAR(values.at("logits/weights")[1], Nesterov(0.5, 0.002, 0.85), 1e-5);
  EXPECT_NEAR(values.at("group1/bn1/beta")[0], Nesterov(0.25, 0.002, 0.85), 1e-6);
  EXPECT_NEAR(values.at("whiten/biases")[1], Nesterov(0.25, 0.002, 0.85, /*ends=*/true), 1e-6);
  // A matrix of one row with equal elements: its only singular value is its norm, which goes through the iterations.
  double singular = 1;
  for (int i = 0; i < 3; ++i) {
    singular = 3.4445 * singular - 4.7750 * std::pow(singular, 3) + 2.0315 * std::pow(singular, 5);
  }
  double v = 2;
  for (const double rate : {0.01, 0.005}) {
    v *= std::sqrt(2.0) / (std::abs(v) * std::sqrt(2.0));
    v -= rate * std::sqrt(2.0) * singular / std::sqrt(2.0);
  }
  EXPECT_NEAR(values.at("group1/conv1/weights")[0], v, 1e-5);
}

}  // namespace
}  // namespace belfry::trainers
