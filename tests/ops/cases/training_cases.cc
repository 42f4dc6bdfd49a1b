#include <algorithm>
#include <cmath>
#include <functional>

#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/schedule.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// Inputs: the variable, its slots (from 0.5 to 2), the gradient. The learning rate is 1/4, the step 3.
using Build = std::function<Output(const Scope& scope, const std::vector<Variable>& variables, Output step, Output rate,
                                   Output gradient)>;
using Reference = std::function<double(double v, double a, double b, double g)>;

OpCase UpdateCase(const std::string& name, int slots, Build build, Reference reference) {
  std::vector<Input> inputs = {{.shape = {3, 5}, .variable = true}};
  for (int i = 0; i < slots; ++i) inputs.push_back({.shape = {3, 5}, .low = 0.5, .high = 2, .variable = true});
  inputs.push_back({.shape = {3, 5}});
  std::vector<std::vector<Shape>> more;
  for (const Shape& shape : {Shape{}, Shape{0, 2}, Shape{211, 401}}) {
    more.emplace_back(static_cast<size_t>(slots) + 2, shape);
  }
  OpCase result{.name = name, .inputs = inputs};
  result.build = [=](const Scope& scope, const Ins& in) {
    std::vector<Variable> variables;
    for (int i = 0; i <= slots; ++i) variables.push_back(scope.graph().VariableOf(*in[static_cast<size_t>(i)].node));
    return Outs{build(scope, variables, ops::Const<int64_t>(scope, 3), ops::Const(scope, 0.25f), in.back())};
  };
  if (reference != nullptr) {
    result.reference = [=](const Arrays& in) {
      Array y = in[0];
      for (int64_t i = 0; i < y.size(); ++i) {
        y[i] = reference(y[i], slots > 0 ? in[1][i] : 0, slots > 1 ? in[2][i] : 0, in.back()[i]);
      }
      return Arrays{y};
    };
  }
  result.more_shapes = more;
  result.gradient = false;
  result.unknown_axes = {};
  return result;
}

std::vector<OpCase> UpdateCases() {
  using Variables = std::vector<Variable>;
  std::vector<OpCase> cases;
  cases.push_back(UpdateCase(
      "ApplyGradientDescent", 0,
      [](const Scope& scope, const Variables& v, Output, Output rate, Output g) {
        return ops::ApplyGradientDescent(scope, v[0], rate, g, {.weight_decay = 0.5});
      },
      [](double v, double, double, double g) { return v - 0.25 * (g + 0.5 * v); }));
  cases.push_back(UpdateCase(
      "ApplyMomentum", 1,
      [](const Scope& scope, const Variables& v, Output, Output rate, Output g) {
        return ops::ApplyMomentum(scope, v[0], v[1], rate, g, {.momentum = 0.75});
      },
      [](double v, double a, double, double g) { return v - 0.25 * (0.75 * a + g); }));
  cases.push_back(UpdateCase(
      "ApplyRMSProp", 2,
      [](const Scope& scope, const Variables& v, Output, Output rate, Output g) {
        return ops::ApplyRMSProp(scope, v[0], v[1], v[2], rate, g, {.decay = 0.75, .momentum = 0.5});
      },
      [](double v, double a, double b, double g) {
        return v - (0.5 * b + 0.25 * g / std::sqrt(0.75 * a + 0.25 * g * g + 1e-10));
      }));
  cases.push_back(UpdateCase(
      "ApplyAdagrad", 1,
      [](const Scope& scope, const Variables& v, Output, Output rate, Output g) {
        return ops::ApplyAdagrad(scope, v[0], v[1], rate, g);
      },
      [](double v, double a, double, double g) { return v - 0.25 * g / std::sqrt(a + g * g); }));
  const auto adam = [](double v, double a, double b, double g) {
    const double rate = 0.25 * std::sqrt(1 - std::pow(0.999, 4)) / (1 - std::pow(0.9, 4));
    return v - rate * (0.9 * a + 0.1 * g) / (std::sqrt(0.999 * b + 0.001 * g * g) + 1e-8);
  };
  cases.push_back(UpdateCase(
      "ApplyAdam", 2,
      [](const Scope& scope, const Variables& v, Output step, Output rate, Output g) {
        return ops::ApplyAdam(scope, v[0], v[1], v[2], step, rate, g);
      },
      adam));
  cases.push_back(UpdateCase(
      "ApplyAdamW", 2,
      [](const Scope& scope, const Variables& v, Output step, Output rate, Output g) {
        return ops::ApplyAdamW(scope, v[0], v[1], v[2], step, rate, g, {.weight_decay = 0.5});
      },
      [=](double v, double a, double b, double g) { return adam(v, a, b, g) - 0.25 * 0.5 * v; }));
  cases.push_back(UpdateCase(
      "ApplyLars", 1,
      [](const Scope& scope, const Variables& v, Output, Output rate, Output g) {
        return ops::ApplyLars(scope, v[0], v[1], rate, g);
      },
      nullptr));
  cases.push_back(UpdateCase(
      "ApplyMovingAverage", 0,
      [](const Scope& scope, const Variables& v, Output step, Output, Output x) {
        return ops::ApplyMovingAverage(scope, v[0], step, x);
      },
      [](double v, double, double, double x) { return 4.0 / 13 * v + 9.0 / 13 * x; }));
  return cases;
}

// The same updates under a condition that is true, and under one that is false.
std::vector<OpCase> ConditionalUpdateCases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : UpdateCases()) {
    for (bool condition : {true, false}) {
      OpCase conditional = op_case;
      conditional.name = op_case.name + (condition ? "IfTrue" : "IfFalse");
      conditional.build = [build = op_case.build, condition](const Scope& scope, const Ins& in) {
        return build(scope.OnlyIf(ops::Const<bool>(scope, condition)), in);
      };
      if (!condition) conditional.reference = [](const Arrays& in) { return Arrays{in[0]}; };
      cases.push_back(std::move(conditional));
    }
  }
  return cases;
}

std::vector<OpCase> LossScaleCases() {
  std::vector<OpCase> cases;
  for (const float odd : {1.0f, INFINITY, -INFINITY, NAN}) {
    OpCase finite{.name = std::isnan(odd)   ? "AllFiniteNan"
                          : odd == INFINITY ? "AllFiniteInf"
                          : odd == 1        ? "AllFinite"
                                            : "AllFiniteMinusInf",
                  .inputs = {{{3, 5}}, {.shape = {}, .values = {odd}}, {{30011}}}};
    finite.build = [](const Scope& scope, const Ins& in) {
      Ins many(100, in[2]);
      many.push_back(in[1]);
      many.push_back(in[0]);
      return Outs{ops::AllFinite(scope, many), ops::AllFinite(scope, {in[2]})};
    };
    finite.reference = [](const Arrays& in) {
      return Arrays{Array({}, std::isfinite(in[1][0]) ? 1 : 0), Array({}, 1)};
    };
    finite.gradient = false;
    cases.push_back(finite);
  }
  for (bool finite : {true, false}) {
    OpCase scale{.name = finite ? "ApplyLossScaleGood" : "ApplyLossScaleSkipped",
                 .inputs = {{.shape = {}, .values = {64}, .variable = true},
                            {.shape = {}, .dtype = DType::kInt64, .values = {6}, .variable = true},
                            {.shape = {}, .dtype = DType::kInt64, .values = {9}, .variable = true}}};
    scale.build = [finite](const Scope& scope, const Ins& in) {
      const auto variable = [&](size_t i) { return scope.graph().VariableOf(*in[i].node); };
      const Output updated = ops::ApplyLossScale(scope, variable(0), variable(1), variable(2),
                                                 ops::Const<bool>(scope, finite), {.growth_interval = 7});
      const Scope after = scope.ControlDependencies({updated});
      return Outs{updated, ops::ReadVariable(after, variable(1)), ops::ReadVariable(after, variable(2))};
    };
    scale.reference = [finite](const Arrays&) {
      return Arrays{Array({}, finite ? 128 : 32), Array({}, 0), Array({}, finite ? 9 : 10)};
    };
    scale.dtypes = {DType::kFloat32};
    scale.gradient = false;
    scale.unknown_axes = {};
    cases.push_back(scale);
  }
  return cases;
}

std::vector<OpCase> ClipCases() {
  OpCase clip{.name = "ClipToGlobalNorm", .inputs = {{{3, 5}}, {{7}}}};
  clip.build = [](const Scope& scope, const Ins& in) {
    const Output norm = ops::GlobalNorm(scope, in);
    return Outs{ops::ClipToNorm(scope, in[0], norm, 0.5), norm};
  };
  clip.reference = [](const Arrays& in) {
    double squares = 0;
    for (const Array& x : in) {
      for (double v : x.values) squares += v * v;
    }
    Array y = in[0], norm({}, static_cast<float>(std::sqrt(squares)));
    for (double& v : y.values) v *= std::min(1.0, 0.5 / norm[0]);
    return Arrays{y, norm};
  };
  clip.more_shapes = {{{}, {}}, {{0}, {3}}, {{97, 211}, {30011}}};
  clip.gradient = false;
  OpCase many{.name = "GlobalNormOfMany", .inputs = {{{3, 5}}}};
  many.build = [](const Scope& scope, const Ins& in) { return Outs{ops::GlobalNorm(scope, Ins(100, in[0]))}; };
  many.reference = [](const Arrays& in) {
    double squares = 0;
    for (double v : in[0].values) squares += 100 * v * v;
    Array norm;
    norm[0] = std::sqrt(squares);
    return Arrays{norm};
  };
  many.gradient = false;
  std::vector<OpCase> cases = {clip, many};
  for (const double limit : {0.5, 100.0}) {
    OpCase wide{.name = limit < 1 ? "ClipToWideNorm" : "BelowWideNorm", .inputs = {{{3, 5}}, {{7}}}};
    wide.build = [limit](const Scope& scope, const Ins& in) {
      const Output norm = ops::GlobalNorm(scope, in, DType::kFloat64);
      return Outs{ops::ClipToNorm(scope, in[0], norm, limit), norm};
    };
    cases.push_back(wide);
  }
  return cases;
}

// Updates of rows 2 and 0 of 4; row 3 of the gradient is skipped.
using SparseBuild = std::function<Output(const Scope& scope, const std::vector<Variable>& variables, Output step,
                                         Output rate, const ops::Gradient& gradient)>;

OpCase SparseUpdateCase(const std::string& name, int slots, DType index, SparseBuild build, Reference reference) {
  std::vector<Input> inputs = {{.shape = {4, 5}, .variable = true}};
  for (int i = 0; i < slots; ++i) inputs.push_back({.shape = {4, 5}, .low = 0.5, .high = 2, .variable = true});
  inputs.push_back({.shape = {3, 5}});
  inputs.push_back({.shape = {3}, .low = -1, .high = 1, .dtype = index, .values = {2, 0, -1}});
  OpCase result{.name = name, .inputs = inputs};
  result.build = [=](const Scope& scope, const Ins& in) {
    std::vector<Variable> variables;
    for (int i = 0; i <= slots; ++i) variables.push_back(scope.graph().VariableOf(*in[static_cast<size_t>(i)].node));
    const auto at = static_cast<size_t>(slots) + 1;
    return Outs{build(scope, variables, ops::Const<int64_t>(scope, 3), ops::Const(scope, 0.25f), {in[at], in[at + 1]})};
  };
  result.reference = [=](const Arrays& in) {
    Array y = in[0];
    const Array &rows = in[in.size() - 2], &indices = in.back();
    const int64_t width = indices.size() == 0 ? 0 : rows.size() / indices.size();
    for (int64_t k = 0; k < indices.size(); ++k) {
      for (int64_t c = 0; c < width && indices[k] >= 0; ++c) {
        const int64_t i = static_cast<int64_t>(indices[k]) * width + c;
        y[i] = reference(y[i], slots > 0 ? in[1][i] : 0, slots > 1 ? in[2][i] : 0, rows[k * width + c]);
      }
    }
    return Arrays{y};
  };
  for (const auto& [variable, rows] : {std::pair(Shape{3, 2}, Shape{0, 2}), std::pair(Shape{1, 0}, Shape{1, 0}),
                                       std::pair(Shape{2}, Shape{1}), std::pair(Shape{5, 3, 211}, Shape{1, 3, 211})}) {
    std::vector<Shape> shapes(static_cast<size_t>(slots) + 1, variable);
    shapes.insert(shapes.end(), {rows, Shape{rows[0]}});
    result.more_shapes.push_back(shapes);
  }
  result.gradient = false;
  result.unknown_axes = {};
  return result;
}

std::vector<OpCase> SparseUpdateCases() {
  using Variables = std::vector<Variable>;
  const auto adam = [](double v, double a, double b, double g) {
    const double rate = 0.25 * std::sqrt(1 - std::pow(0.999, 4)) / (1 - std::pow(0.9, 4));
    return v - rate * (0.9 * a + 0.1 * g) / (std::sqrt(0.999 * b + 0.001 * g * g) + 1e-8);
  };
  std::vector<OpCase> cases;
  cases.push_back(SparseUpdateCase(
      "SparseApplyGradientDescent", 0, DType::kInt32,
      [](const Scope& scope, const Variables& v, Output, Output rate, const ops::Gradient& g) {
        return ops::ApplyGradientDescent(scope, v[0], rate, g, {.weight_decay = 0.5});
      },
      [](double v, double, double, double g) { return v - 0.25 * (g + 0.5 * v); }));
  cases.push_back(SparseUpdateCase(
      "SparseApplyMomentum", 1, DType::kInt64,
      [](const Scope& scope, const Variables& v, Output, Output rate, const ops::Gradient& g) {
        return ops::ApplyMomentum(scope, v[0], v[1], rate, g, {.momentum = 0.75});
      },
      [](double v, double a, double, double g) { return v - 0.25 * (0.75 * a + g); }));
  cases.push_back(SparseUpdateCase(
      "SparseApplyRMSProp", 2, DType::kInt32,
      [](const Scope& scope, const Variables& v, Output, Output rate, const ops::Gradient& g) {
        return ops::ApplyRMSProp(scope, v[0], v[1], v[2], rate, g, {.decay = 0.75, .momentum = 0.5});
      },
      [](double v, double a, double b, double g) {
        return v - (0.5 * b + 0.25 * g / std::sqrt(0.75 * a + 0.25 * g * g + 1e-10));
      }));
  cases.push_back(SparseUpdateCase(
      "SparseApplyAdagrad", 1, DType::kInt64,
      [](const Scope& scope, const Variables& v, Output, Output rate, const ops::Gradient& g) {
        return ops::ApplyAdagrad(scope, v[0], v[1], rate, g);
      },
      [](double v, double a, double, double g) { return v - 0.25 * g / std::sqrt(a + g * g); }));
  cases.push_back(SparseUpdateCase(
      "SparseApplyAdam", 2, DType::kInt32,
      [](const Scope& scope, const Variables& v, Output step, Output rate, const ops::Gradient& g) {
        return ops::ApplyAdam(scope, v[0], v[1], v[2], step, rate, g);
      },
      adam));
  cases.push_back(SparseUpdateCase(
      "SparseApplyAdamW", 2, DType::kInt64,
      [](const Scope& scope, const Variables& v, Output step, Output rate, const ops::Gradient& g) {
        return ops::ApplyAdamW(scope, v[0], v[1], v[2], step, rate, g, {.weight_decay = 0.5});
      },
      [=](double v, double a, double b, double g) { return adam(v, a, b, g) - 0.25 * 0.5 * v; }));
  return cases;
}

// Every curve, at steps drawn from [0, 20].
std::vector<OpCase> RateCases() {
  const Tensor values = Tensor::Of<double>({1, 0.5, 0.25});
  const std::vector<std::pair<std::string, Attrs>> curves = {
      {"PiecewiseRate", {{"boundaries", std::vector<int64_t>{5, 9}}, {"values", values}}},
      {"InterpolatedRate", {{"steps", std::vector<int64_t>{3, 9, 16}}, {"values", values}}},
      {"ExponentialRate", {{"initial", 0.5}, {"rate", 0.9}, {"decay_steps", int64_t{7}}}},
      {"PolynomialRate", {{"initial", 0.5}, {"power", 2.0}, {"decay_steps", int64_t{11}}}},
      {"RampRate", {{"initial", 0.5}, {"end", 0.25}, {"power", 3.0}, {"decay_steps", int64_t{11}}}},
      {"CosineRate", {{"initial", 0.5}, {"decay_steps", int64_t{11}}}},
      {"WarmUpRate", {{"warmup_steps", int64_t{11}}}}};
  std::vector<OpCase> cases;
  for (const auto& [op, given] : curves) {
    // RateAt needs every attribute; the graph fills in defaults by itself.
    Attrs attrs = given;
    for (const AttrDef& attr : BuiltinOps().Find(op)->attrs) {
      if (attrs.Find(attr.name) == nullptr) attrs.Set(attr.name, attr.value);
    }
    OpCase rate{.name = op, .inputs = {{.shape = {}, .low = 0, .high = 20}}, .dtypes = {DType::kInt64}};
    rate.build = [op = op, attrs](const Scope& scope, const Ins& in) {
      std::vector<Output> inputs = {in[0]};
      if (op == "WarmUpRate") inputs.push_back(ops::Const(scope, 0.5f));
      return Outs{scope.Add(op, inputs, attrs)};
    };
    rate.reference = [op = op, attrs](const Arrays& in) {
      return Arrays{Array({}, ops::RateAt(op, attrs, static_cast<int64_t>(in[0][0]), 0.5).value())};
    };
    rate.gradient = false;
    rate.unknown_axes = {};
    cases.push_back(rate);
  }
  return cases;
}

}  // namespace

std::vector<OpCase> TrainingCases() {
  std::vector<OpCase> cases = UpdateCases();
  for (const auto& list : {&ConditionalUpdateCases, &SparseUpdateCases, &LossScaleCases, &ClipCases, &RateCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace belfry::harness
