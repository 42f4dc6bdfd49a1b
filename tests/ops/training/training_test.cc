#include "ops/training.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/compiler/eager.h"
#include "framework/graph/graph.h"
#include "framework/graph/infer.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

using Vector = std::vector<double>;

// The simulated variable, followed by its slots.
using State = std::vector<Vector>;

// One update, written as its formula; state[0] is the variable, and `t` counts from 1.
using Reference = std::function<void(State& state, const Vector& gradient, double rate, int t)>;

struct Case {
  std::string op;
  Attrs attrs;
  int slots;
  bool step;
  double slot_start;
  Reference reference;
};

double Norm(const Vector& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

Reference Each(std::function<void(double& v, double* s, double g, double rate, int t)> update, double weight_decay) {
  return [=](State& state, const Vector& gradient, double rate, int t) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      double s[2] = {state.size() > 1 ? state[1][i] : 0, state.size() > 2 ? state[2][i] : 0};
      update(state[0][i], s, gradient[i] + weight_decay * state[0][i], rate, t);
      for (size_t k = 1; k < state.size(); ++k) state[k][i] = s[k - 1];
    }
  };
}

Case GradientDescentCase(double decay) {
  return {"ApplyGradientDescent",
          {{"weight_decay", decay}},
          0,
          false,
          0,
          Each([](double& v, double*, double g, double rate, int) { v -= rate * g; }, decay)};
}

Case MomentumCase(bool nesterov, double decay) {
  return {"ApplyMomentum",
          {{"momentum", 0.8}, {"use_nesterov", nesterov}, {"weight_decay", decay}},
          1,
          false,
          0,
          Each(
              [=](double& v, double* s, double g, double rate, int) {
                s[0] = 0.8 * s[0] + g;
                v -= nesterov ? rate * g + rate * 0.8 * s[0] : rate * s[0];
              },
              decay)};
}

Case RMSPropCase(double decay) {
  return {"ApplyRMSProp",
          {{"decay", 0.7}, {"momentum", 0.6}, {"epsilon", 1e-3}, {"weight_decay", decay}},
          2,
          false,
          1,
          Each(
              [](double& v, double* s, double g, double rate, int) {
                s[0] = 0.7 * s[0] + (1 - 0.7) * g * g;
                s[1] = 0.6 * s[1] + rate * g / std::sqrt(s[0] + 1e-3);
                v -= s[1];
              },
              decay)};
}

Case AdagradCase(double decay) {
  return {"ApplyAdagrad",
          {{"weight_decay", decay}},
          1,
          false,
          0.1,
          Each(
              [](double& v, double* s, double g, double rate, int) {
                s[0] += g * g;
                v -= rate * g / std::sqrt(s[0]);
              },
              decay)};
}

Case AdamCase(const std::string& op, double decay) {
  const bool decoupled = op == "ApplyAdamW";
  return {op,
          {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-4}, {"weight_decay", decay}},
          2,
          true,
          0,
          Each(
              [=](double& v, double* s, double g, double rate, int t) {
                if (decoupled) v -= rate * decay * v;
                s[0] = 0.8 * s[0] + 0.2 * g;
                s[1] = 0.95 * s[1] + 0.05 * g * g;
                const double corrected = rate * std::sqrt(1 - std::pow(0.95, t)) / (1 - std::pow(0.8, t));
                v -= corrected * s[0] / (std::sqrt(s[1]) + 1e-4);
              },
              decoupled ? 0 : decay)};
}

Case LarsCase(bool adapt, double decay) {
  return {
      "ApplyLars",
      {{"momentum", 0.7}, {"trust_coefficient", 0.02}, {"epsilon", 1e-6}, {"weight_decay", decay}, {"adapt", adapt}},
      1,
      false,
      0,
      [=](State& state, const Vector& gradient, double rate, int) {
        const double v = Norm(state[0]), g = Norm(gradient);
        const double trust = !adapt || v == 0 || g == 0 ? 1 : 0.02 * v / (g + decay * v + 1e-6);
        for (size_t i = 0; i < gradient.size(); ++i) {
          state[1][i] = 0.7 * state[1][i] + rate * trust * (gradient[i] + decay * state[0][i]);
          state[0][i] -= state[1][i];
        }
      }};
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (double decay : {0.0, 0.01}) {
    cases.push_back(GradientDescentCase(decay));
    cases.push_back(MomentumCase(false, decay));
    cases.push_back(MomentumCase(true, decay));
    cases.push_back(RMSPropCase(decay));
    cases.push_back(AdagradCase(decay));
    cases.push_back(AdamCase("ApplyAdam", decay));
    cases.push_back(AdamCase("ApplyAdamW", decay));
    cases.push_back(LarsCase(true, decay));
    cases.push_back(LarsCase(false, decay));
  }
  return cases;
}

Tensor ToTensor(DType dtype, const Vector& values) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat32) tensor.data<float>()[i] = static_cast<float>(values[i]);
    if (dtype == DType::kFloat64) tensor.data<double>()[i] = values[i];
    if (dtype == DType::kFloat16) tensor.data<Half>()[i] = static_cast<Half>(static_cast<float>(values[i]));
    if (dtype == DType::kBFloat16) tensor.data<BFloat16>()[i] = static_cast<BFloat16>(static_cast<float>(values[i]));
  }
  return tensor;
}

// Runs `steps` updates with the op and returns its state. `expected`, if not null, receives the state that the
// reference reaches with the same gradients.
std::vector<Tensor> Simulate(const Case& update, DType dtype, int64_t n, int steps, State* expected = nullptr) {
  std::mt19937 random(17);
  std::normal_distribution<double> normal;
  const auto draw = [&] {
    Vector x(static_cast<size_t>(n));
    for (double& v : x) v = normal(random);
    return ToTensor(dtype, x);
  };
  std::vector<Tensor> tensors = {draw()};
  while (static_cast<int>(tensors.size()) <= update.slots) {
    tensors.push_back(ToTensor(dtype, Vector(static_cast<size_t>(n), update.slot_start)));
  }
  State state;
  for (const Tensor& tensor : tensors) state.push_back(tensor.ToDoubles());
  const OpDef& op = *BuiltinOps().Find(update.op);
  for (int step = 0; step < steps; ++step) {
    const float rate = 0.1f / static_cast<float>(step + 1);
    const Tensor gradient = draw();
    std::vector<Tensor> inputs = tensors;
    if (update.step) inputs.push_back(Tensor::Scalar<int64_t>(step));
    inputs.push_back(Tensor::Scalar(rate));
    inputs.push_back(gradient);
    std::vector<DType> dtypes;
    for (const Tensor& input : inputs) dtypes.push_back(input.dtype());
    const Attrs attrs = ValueOf(CompleteAttrs(op, dtypes, update.attrs));
    const auto outputs = ValueOf(RunOp(op, attrs, inputs));
    EXPECT_EQ(outputs.front().raw(), tensors[0].raw());
    update.reference(state, gradient.ToDoubles(), rate, step + 1);
  }
  if (expected != nullptr) *expected = state;
  return tensors;
}

std::string Describe(const Case& update) {
  std::string text = update.op;
  for (const auto& [name, value] : update.attrs.values()) text += " " + name + "=" + AttrToString(value);
  return text;
}

TEST(TrainingTest, FollowsTheFormula) {
  for (const Case& update : AllCases()) {
    SCOPED_TRACE(Describe(update));
    for (int64_t n : {0, 1, 7, 513, 10007}) {
      State expected;
      const std::vector<Tensor> tensors = Simulate(update, DType::kFloat64, n, 8, &expected);
      for (size_t k = 0; k < tensors.size(); ++k) {
        const Vector actual = tensors[k].ToDoubles();
        for (size_t i = 0; i < actual.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[k][i], 1e-12 * (1 + std::abs(expected[k][i]))) << "slot " << k << " at " << i;
        }
      }
    }
  }
}

TEST(TrainingTest, NarrowDtypesComputeInFloat32) {
  for (const Case& update : AllCases()) {
    for (const auto& [dtype, tolerance] : std::vector<std::pair<DType, double>>{
             {DType::kFloat32, 3e-6}, {DType::kFloat16, 2e-2}, {DType::kBFloat16, 1.5e-1}}) {
      SCOPED_TRACE(Describe(update) + " " + std::string(DTypeName(dtype)));
      State expected;
      const Vector actual = Simulate(update, dtype, 1031, 5, &expected)[0].ToDoubles();
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[0][i], tolerance * (1 + std::abs(expected[0][i])));
      }
    }
  }
}

TEST(TrainingTest, ThreadsDoNotMatter) {
  for (const Case& update : AllCases()) {
    std::vector<Tensor> one, two;
    {
      ScopedParallelThreads threads(1);
      one = Simulate(update, DType::kFloat32, 100003, 2);
    }
    ScopedParallelThreads threads(2);
    two = Simulate(update, DType::kFloat32, 100003, 2);
    for (size_t k = 0; k < one.size(); ++k) EXPECT_EQ(one[k].ToDoubles(), two[k].ToDoubles()) << Describe(update);
  }
}

// The variable after one step with this gradient.
Vector Step(const Case& update, const Vector& variable, const Vector& gradient) {
  std::vector<Tensor> inputs = {ToTensor(DType::kFloat64, variable)};
  for (int i = 0; i < update.slots; ++i) {
    inputs.push_back(ToTensor(DType::kFloat64, Vector(variable.size(), update.slot_start)));
  }
  if (update.step) inputs.push_back(Tensor::Scalar<int64_t>(0));
  inputs.push_back(Tensor::Scalar(0.1f));
  inputs.push_back(ToTensor(DType::kFloat64, gradient));
  std::vector<DType> dtypes;
  for (const Tensor& input : inputs) dtypes.push_back(input.dtype());
  const OpDef& op = *BuiltinOps().Find(update.op);
  return RunOp(op, CompleteAttrs(op, dtypes, update.attrs).value(), inputs).value()[0].ToDoubles();
}

TEST(TrainingTest, NotANumberShows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& update : AllCases()) {
    const Vector after = Step(update, {1, 2, 3}, {0, nan, 1});
    EXPECT_TRUE(std::isnan(after[1])) << Describe(update);
    const bool whole_tensor = update.op == "ApplyLars" && update.attrs.Bool("adapt");
    EXPECT_EQ(std::isnan(after[0]), whole_tensor) << Describe(update);
  }
}

TEST(TrainingTest, LarsTrustsWhatHasNoNorm) {
  EXPECT_THAT(Step(LarsCase(true, 0), {0, 0}, {3, 4}),
              ::testing::ElementsAre(::testing::DoubleNear(-0.3, 1e-7), ::testing::DoubleNear(-0.4, 1e-7)));
  EXPECT_THAT(Step(LarsCase(true, 0), {1, 2}, {0, 0}), ::testing::ElementsAre(1, 2));
}

TEST(TrainingTest, ShapesMustAgree) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Variable v = GetVariable(root, "v", {2, 3}, NormalInitializer(1));
  const Variable a = GetVariable(root, "a", {3}, NormalInitializer(1));
  const Variable rate = GetVariable(root, "rate", {}, NormalInitializer(1));
  EXPECT_TRUE(ApplyMomentum(root, v, v, rate, v).valid());
  EXPECT_FALSE(ApplyMomentum(root, v, a, rate, v).valid());
  EXPECT_THAT(graph.status().message(),
              ::testing::AllOf(::testing::HasSubstr("'accumulator' has shape [3]"), ::testing::HasSubstr("[2,3]")));
}

TEST(TrainingTest, RatesOutOfRangeAreErrors) {
  const auto message = [](const std::function<void(const Scope&, const Variable&, Output)>& apply) {
    Graph graph(BuiltinOps());
    const Scope root(graph);
    const Variable v = GetVariable(root, "v", {2}, NormalInitializer(1));
    apply(root, v, GetVariable(root, "rate", {}, NormalInitializer(1)));
    return std::string(graph.status().message());
  };
  EXPECT_THAT(message([](const Scope& root, const Variable& v, Output rate) {
                ApplyMomentum(root, v, v, rate, v, {.momentum = 2});
              }),
              ::testing::HasSubstr("'momentum' is 2, but must be in [0, 1)"));
  EXPECT_THAT(message([](const Scope& root, const Variable& v, Output rate) {
                ApplyGradientDescent(root, v, rate, v, {.weight_decay = -1});
              }),
              ::testing::HasSubstr("'weight_decay' is -1, but must be finite and at least 0"));
  EXPECT_THAT(message([](const Scope& root, const Variable& v, Output rate) {
                ApplyRMSProp(root, v, v, v, rate, v, {.epsilon = std::nan("")});
              }),
              ::testing::HasSubstr("'epsilon' is nan"));
}

TEST(TrainingTest, TheLearningRateIsAFloat32Scalar) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Variable v = GetVariable(root, "v", {2}, NormalInitializer(1));
  EXPECT_FALSE(ApplyGradientDescent(root, v, v, v).valid());
  EXPECT_THAT(graph.status().message(), ::testing::HasSubstr("'learning_rate' has shape [2]"));
}

}  // namespace
}  // namespace belfry::ops
