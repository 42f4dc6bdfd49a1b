// Optimizers on a small least-squares problem: 20 steps of the graph, compared with the formulas in double.
#include <cmath>
#include <functional>
#include <vector>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"
#include "optim/adam.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lookahead.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "tests/main/testing.h"
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

double NormOf(const Vector& x) {
  double sum = 0;
  for (double e : x) sum += e * e;
  return std::sqrt(sum);
}

TEST(TrajectoryTest, Lars) {
  Vector v(kSize, 0.5), a(kSize, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const Vector g = Slope(v);
    const double trust = 0.05 * NormOf(v) / (NormOf(g) + 0.01 * NormOf(v));
    for (int i = 0; i < kSize; ++i) a[i] = 0.9 * a[i] + kRate * trust * (g[i] + 0.01 * v[i]);
    for (int i = 0; i < kSize; ++i) v[i] -= a[i];
  }
  ExpectNear(Train(Lars({.learning_rate = kRate, .trust_coefficient = 0.05, .weight_decay = 0.01}), {"Lars"}), v);
}

TEST(TrajectoryTest, Lamb) {
  const auto all = [](const Variable&) { return true; };
  const auto none = [](const Variable&) { return false; };
  for (const bool adapts : {true, false}) {
    Vector v(kSize, 0.5), m(kSize, 0), s(kSize, 0), by(kSize);
    for (int t = 1; t <= kSteps; ++t) {
      const Vector g = Slope(v);
      for (int i = 0; i < kSize; ++i) {
        m[i] = 0.8 * m[i] + 0.2 * g[i];
        s[i] = 0.99 * s[i] + 0.01 * g[i] * g[i];
        by[i] = m[i] / (1 - std::pow(0.8, t)) / (std::sqrt(s[i] / (1 - std::pow(0.99, t))) + 1e-3);
        if (adapts) by[i] += 0.1 * v[i];
      }
      const double trust = adapts ? NormOf(v) / NormOf(by) : 1;
      for (int i = 0; i < kSize; ++i) v[i] -= kRate * trust * by[i];
    }
    ExpectNear(Train(Lamb({.learning_rate = kRate,
                           .beta1 = 0.8,
                           .beta2 = 0.99,
                           .epsilon = 1e-3,
                           .weight_decay = 0.1,
                           .adapts = adapts ? VariableFilter(all) : VariableFilter(none)}),
                     {"Lamb", "Lamb_1"}),
               v);
  }
}

// Muon's direction for a matrix [rows, columns]: X (a + b X' X + c (X' X)^2), five times.
Vector NewtonSchulz(Vector x, int rows, int columns) {
  const double norm = NormOf(x) + 1e-7;
  for (double& e : x) e /= norm;
  const auto product = [](const Vector& a, const Vector& b, int m, int k, int n, bool transpose_a) {
    Vector c(m * n, 0);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int l = 0; l < k; ++l) c[i * n + j] += (transpose_a ? a[l * m + i] : a[i * k + l]) * b[l * n + j];
      }
    }
    return c;
  };
  for (int iteration = 0; iteration < 5; ++iteration) {
    const Vector gram = product(x, x, columns, rows, columns, true);
    Vector factor = product(gram, gram, columns, columns, columns, false);
    for (size_t i = 0; i < factor.size(); ++i) factor[i] = -4.7750 * gram[i] + 2.0315 * factor[i];
    for (int i = 0; i < columns; ++i) factor[i * columns + i] += 3.4445;
    x = product(x, factor, rows, columns, columns, false);
  }
  return x;
}

TEST(TrajectoryTest, Muon) {
  for (const bool nesterov : {true, false}) {
    Vector v(kSize, 0.5), a(kSize, 0), u(kSize);
    for (int t = 1; t <= kSteps; ++t) {
      const Vector g = Slope(v);
      for (int i = 0; i < kSize; ++i) {
        a[i] = 0.9 * a[i] + g[i];
        u[i] = nesterov ? g[i] + 0.9 * a[i] : a[i];
      }
      const Vector x = NewtonSchulz(u, 2, 3);
      for (int i = 0; i < kSize; ++i) v[i] -= kRate * (std::sqrt(1.5) * x[i] + 0.1 * v[i]);
    }
    ExpectNear(
        Train(Muon({.learning_rate = kRate, .momentum = 0.9, .use_nesterov = nesterov, .weight_decay = 0.1}), {"Muon"}),
        v);
  }
}

// Values of PyTorch 2.15, whose matrices are [out, in] and whose own iterations are in bfloat16:
//   import torch
//   from torch.optim import _muon
//   def newton_schulz(g, coefficients, steps, epsilon):
//     a, b, c = coefficients
//     x = g / g.norm()
//     for _ in range(steps): x = a * x + b * x @ (x.T @ x) + c * x @ (x.T @ x) @ (x.T @ x)
//     return x
//   _muon._zeropower_via_newtonschulz = newton_schulz
//   torch.set_default_dtype(torch.float64)
//   matrix = lambda x: torch.tensor(x).reshape(2, 3).T
//   v = torch.nn.Parameter(torch.full((3, 2), 0.5))
//   for adjust in ('original', 'match_rms_adamw'):
//     v.data.fill_(0.5)
//     muon = torch.optim.Muon([v], lr=0.125, weight_decay=0.1, momentum=0.9, adjust_lr_fn=adjust)
//     for _ in range(20):
//       muon.zero_grad()
//       (matrix([1, .5, 2, .1, 4, 1]) * (v - matrix([1, -2, .5, 3, -.25, 0])) ** 2 / 2).sum().backward()
//       muon.step()
//     print(['%.9g' % x for x in v.detach().T.flatten().tolist()])
TEST(TrajectoryTest, MuonOfPyTorch) {
  const auto expect = [](bool match_adamw, const Vector& expected) {
    const Vector v = Train(
        Muon({.learning_rate = kRate, .momentum = 0.9, .weight_decay = 0.1, .match_adamw = match_adamw}), {"Muon"});
    for (int i = 0; i < kSize; ++i) EXPECT_NEAR(v[i], expected[i], 1e-6) << i;
  };
  expect(false, {0.600396202, -1.14886054, 0.417676603, 1.68117443, -0.182288794, -0.0930231914});
  expect(true, {0.868595874, 0.147118118, 0.663556853, 0.209445651, -0.0762988476, 0.122266626});
}

// The direction of a filter [2, 2, 1, 3], whose matrix is tall.
TEST(TrajectoryTest, MuonOfAFilter) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    Graph graph(BuiltinOps());
    const Scope root(graph);
    const Variable v = GetVariable(root, "v", {2, 2, 1, 3}, ZerosInitializer(), {.dtype = dtype});
    const Vector g = {1, 2, -0.5, 0.25, -3, 1, 0.5, 0.75, -2, 1.5, 0, -1};
    const Tensor gradient = Tensor::Of<double>(absl::MakeConstSpan(g), Shape{2, 2, 1, 3});
    const Node* const train = ApplyGradients(root, Muon({.learning_rate = 1, .momentum = 0}),
                                             {{ops::Cast(root, ops::Const(root, gradient), dtype), v}});
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    GraphRunner runner(graph);
    runner.RunTarget(train);
    const Vector expected = NewtonSchulz(g, 4, 3), actual = runner.Value(v);
    const double error = dtype == DType::kFloat64 ? 1e-12 : dtype == DType::kFloat32 ? 1e-5 : 5e-3;
    for (size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(actual[i], -expected[i], error) << DTypeName(dtype);
  }
}

TEST(TrajectoryTest, MuonIsForMatrices) {
  Graph graph(BuiltinOps());
  const Variable v = GetVariable(Scope(graph), "layer/biases", {2}, ZerosInitializer());
  EXPECT_THAT(Muon().Check({v}).message(),
              ::testing::HasSubstr("the variable layer/biases has shape [2]; give it another optimizer by"));
  EXPECT_FALSE(Muon().Apply(Scope(graph), v, v).valid());
  EXPECT_THAT(graph.status().message(), ::testing::HasSubstr("Muon updates matrices"));
}

TEST(TrajectoryTest, ComposedRulesCheckTheirOptions) {
  const auto expect = [](const Optimizer& rule, const char* error) {
    Graph graph(BuiltinOps());
    const Variable v = GetVariable(Scope(graph), "v", {2, 2}, ZerosInitializer());
    EXPECT_THAT(rule.Check({v}).message(), ::testing::HasSubstr(error));
    EXPECT_FALSE(rule.Apply(Scope(graph), v, v).valid());
    EXPECT_THAT(graph.status().message(), ::testing::HasSubstr(error));
  };
  expect(Lamb({.beta1 = 2}), "LAMB: 'beta1' is 2, but must be in [0, 1)");
  expect(Lamb({.beta2 = std::nan("")}), "LAMB: 'beta2' is nan");
  expect(Muon({.momentum = -0.5}), "Muon: 'momentum' is -0.5");
  expect(Muon({.iterations = 0}), "Muon: 0 iterations; expected at least 1");
}

TEST(TrajectoryTest, LookaheadOfMomentum) {
  Vector slow(kSize, 0.5), fast = slow, a(kSize, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const Vector g = Slope(fast);
    for (int i = 0; i < kSize; ++i) {
      a[i] = 0.5 * a[i] + g[i];
      fast[i] -= kRate * a[i];
      if (t % 3 == 0) fast[i] = slow[i] += 0.75 * (fast[i] - slow[i]);
    }
  }
  ExpectNear(Train(Lookahead(Momentum({.learning_rate = kRate, .momentum = 0.5}), {.steps = 3, .alpha = 0.75}),
                   {"Lookahead", "Momentum"}),
             fast);
}

TEST(TrajectoryTest, LookaheadOfAdam) {
  Vector slow(kSize, 0.5);
  const Adam adam({.learning_rate = kRate, .beta2 = 0.99, .epsilon = 1e-6});
  int at = 0;
  ExpectNear(Train(Lookahead(adam), {"Lookahead", "Adam", "Adam_1"}),
             Reference([&](double& v, double& a, double& b, double g, int t) {
               AdamReference(v, a, b, g, t);
               double& s = slow[at++ % kSize];
               if (t % 5 == 0) v = s += 0.5 * (v - s);
             }));
}

TEST(TrajectoryTest, LookaheadFollowsASchedule) {
  Vector slow(kSize, 0.5), fast = slow;
  for (int t = 1; t <= kSteps; ++t) {
    const Vector g = Slope(fast);
    for (int i = 0; i < kSize; ++i) {
      fast[i] -= kRate * g[i];
      if (t % 3 == 0) fast[i] = slow[i] += (1 - 0.75 * std::pow(t / 20.0, 3)) * (fast[i] - slow[i]);
    }
  }
  const Lookahead lookahead(GradientDescent({.learning_rate = kRate}), {.steps = 3, .alpha = Ramp(1, 20, 0.25, 3)});
  const Vector v = Train(lookahead, {"Lookahead"});
  for (int i = 0; i < kSize; ++i) EXPECT_NEAR(v[i], fast[i], 1e-6) << i;  // the share is a float32
}

// The filter has the norm sqrt(columns) before each update.
TEST(TrajectoryTest, MuonOfConstantNorm) {
  Vector v(kSize, 0.5), a(kSize, 0);
  for (int t = 1; t <= kSteps; ++t) {
    const Vector g = Slope(v);
    double square = 0;
    for (int i = 0; i < kSize; ++i) {
      a[i] = 0.5 * a[i] + g[i];
      square += v[i] * v[i];
    }
    const Vector x = NewtonSchulz(a, 2, 3);
    for (int i = 0; i < kSize; ++i) v[i] = v[i] * std::sqrt(3 / square) - kRate * std::sqrt(1.5) * x[i];
  }
  ExpectNear(Train(Muon({.learning_rate = kRate, .momentum = 0.5, .use_nesterov = false, .normalise = true}), {"Muon"}),
             v);
}

// A statistic that grows by one in each step is drawn back to its slow copy after every second.
TEST(TrajectoryTest, LookaheadOfAStatistic) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Variable statistic = GetVariable(root, "mean", {2}, ZerosInitializer(), {.trainable = false});
  const Output moved = ops::AssignAdd(root, statistic, ops::Const(root, {1.f, 2.f}));
  const Lookahead lookahead(GradientDescent(), {.steps = 2, .alpha = 0.25});
  const Output followed = lookahead.FollowStatistic(root.ControlDependencies({moved}), statistic);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_FALSE(GradientDescent().FollowStatistic(root, statistic).valid());
  GraphRunner runner(graph);
  double fast = 0, slow = 0;
  for (int t = 1; t <= 7; ++t) {
    runner.RunTarget(followed.node);
    fast += 1;
    if (t == 1) slow = fast;
    if (t % 2 == 0) fast = slow += 0.25 * (fast - slow);
    const Vector value = runner.Value(statistic);
    EXPECT_FLOAT_EQ(value[0], fast) << t;
    EXPECT_FLOAT_EQ(value[1], 2 * fast) << t;
  }
}

TEST(TrajectoryTest, LookaheadOptions) {
  for (const LookaheadOptions& options :
       {LookaheadOptions{.steps = 0}, {.alpha = 0}, {.alpha = 1.5}, {.alpha = std::nan("")}}) {
    EXPECT_THAT(Lookahead(Adam(), options).Check({}).message(), ::testing::HasSubstr("Lookahead has"));
  }
  EXPECT_TRUE(Lookahead(Adam()).takes_sparse());
  EXPECT_FALSE(Lookahead(Lars()).takes_sparse());
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
  EXPECT_THAT(graph.status().message(), ::testing::HasSubstr("initial_accumulator"));
}

}  // namespace
}  // namespace belfry::optim
