#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/array.h"
#include "ops/nn.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// y = f(x), element by element. `gap` keeps x away from the kink at 0.
OpCase Activation(const std::string& name, std::function<Output(const Scope&, Output)> op,
                  std::function<double(double)> f, double limit = 3) {
  return {.name = name,
          .inputs = {{.shape = {3, 7}, .low = -limit, .high = limit, .gap = 2e-5}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{op(scope, in[0])}; },
          .reference =
              [=](const Arrays& in) {
                Array y(in[0].shape);
                std::transform(in[0].values.begin(), in[0].values.end(), y.values.begin(), f);
                return Arrays{y};
              },
          .more_shapes = {{{}}, {{1}}, {{0, 3}}, {{521}}, {{300, 301}}},
          .tolerance = 4};
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<OpCase> Activations() {
  using ops::Gelu;
  const double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  return {
      Activation(
          "Relu", [](const Scope& s, Output x) { return ops::Relu(s, x); }, [](double x) { return std::max(x, 0.0); }),
      Activation(
          "Relu6", [](const Scope& s, Output x) { return ops::Relu6(s, ops::LeakyRelu(s, x, 1)); },
          [](double x) { return std::clamp(x, 0.0, 6.0); }, 9),
      Activation(
          "LeakyRelu", [](const Scope& s, Output x) { return ops::LeakyRelu(s, x, 0.3); },
          [](double x) { return x > 0 ? x : 0.3 * x; }),
      Activation(
          "Elu", [](const Scope& s, Output x) { return ops::Elu(s, x, 0.7); },
          [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); }),
      Activation(
          "Selu", [](const Scope& s, Output x) { return ops::Selu(s, x); },
          [=](double x) { return scale * (x > 0 ? x : alpha * std::expm1(x)); }),
      Activation(
          "Gelu", [](const Scope& s, Output x) { return Gelu(s, x); },
          [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }),
      Activation(
          "GeluTanh", [](const Scope& s, Output x) { return Gelu(s, x, true); },
          [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }),
      Activation(
          "Silu", [](const Scope& s, Output x) { return ops::Silu(s, x); }, [](double x) { return x * Sigmoid(x); }),
      Activation(
          "Softplus", [](const Scope& s, Output x) { return ops::Softplus(s, x); },
          [](double x) { return std::log1p(std::exp(x)); }),
  };
}

// Softmax or LogSoftmax along an axis of a tensor.
OpCase SoftmaxCase(const std::string& name, bool log, int64_t axis, double temperature) {
  const auto reference = [=](const Arrays& in) {
    const Shape& shape = in[0].shape;
    const int at = *CanonicalAxis(axis, shape.rank());
    const int64_t n = shape[at], inner = shape.elements(at + 1, shape.rank());
    Array y(shape);
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t first = i / (n * inner) * n * inner + i % inner;
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += std::exp((in[0][first + k * inner] - in[0][i]) / temperature);
      y[i] = log ? -std::log(sum) : 1 / sum;
    }
    return Arrays{y};
  };
  return {.name = name,
          .inputs = {{.shape = {3, 4, 5}, .low = -3, .high = 3}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                const ops::SoftmaxOptions options{.axis = axis, .temperature = temperature};
                return Outs{log ? ops::LogSoftmax(scope, in[0], options) : ops::Softmax(scope, in[0], options)};
              },
          .reference = reference,
          .more_shapes = {{{1, 1, 1}},
                          {{2, 0, 3}},
                          {{0, 2, 2}},
                          {{2, 3, 700}},
                          {{1, 2, 2051}},
                          {{2, 700, 3}},
                          {{700, 2, 3}},
                          {{2, 3, 808}},
                          {{1, 2, 4104}}},
          .tolerance = 4,
          .unknown_axes = {0, 1, 2}};
}

// -sum target log p for each row, where the targets are smoothed labels.
Arrays CrossEntropy(const Array& logits, double smoothing, const std::function<double(int64_t, int64_t)>& label) {
  const int64_t n = logits.shape[-1], rows = logits.shape.elements(0, logits.shape.rank() - 1);
  Array loss(logits.shape.Remove(-1));
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += std::exp(logits[row * n + k]);
    for (int64_t k = 0; k < n; ++k) {
      const double target = (1 - smoothing) * label(row, k) + smoothing / static_cast<double>(n);
      loss[row] -= target * (logits[row * n + k] - std::log(sum));
    }
  }
  return {loss};
}

// Labels are drawn from [first_label, 5).
OpCase SparseCase(const std::string& name, DType labels, const ops::SparseCrossEntropyOptions& options,
                  double first_label = 0) {
  return {.name = name,
          .inputs = {{.shape = {4, 5}, .low = -3, .high = 3},
                     {.shape = {4}, .low = first_label, .high = 5, .dtype = labels}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{ops::SparseSoftmaxCrossEntropy(scope, in[0], in[1], options)}; },
          .reference =
              [=](const Arrays& in) {
                Arrays loss = CrossEntropy(in[0], options.label_smoothing, [&](int64_t row, int64_t k) {
                  return static_cast<int64_t>(in[1][row]) == k ? 1.0 : 0.0;
                });
                for (int64_t row = 0; row < loss[0].size(); ++row) {
                  if (options.ignore_label == static_cast<int64_t>(in[1][row])) loss[0][row] = 0;
                }
                return loss;
              },
          .more_shapes =
              {{{1, 5}, {1}}, {{0, 5}, {0}}, {{5}, {}}, {{2, 3, 7}, {2, 3}}, {{70, 600}, {70}}, {{2, 2051}, {2}}},
          .tolerance = 4};
}

// The loss, and the gradient of the logits for that of the loss.
OpCase WithGradientCase(const std::string& name, std::vector<int64_t> ignored) {
  return {.name = name,
          .inputs = {{.shape = {4, 5}, .low = -3, .high = 3},
                     {.shape = {4}, .low = 0, .high = 5, .dtype = DType::kInt32},
                     {.shape = {4}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                const DType wide = in[0].dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
                return scope.AddAll("SparseCrossEntropyWithGradient", {in[0], in[1], ops::Cast(scope, in[2], wide)},
                                    {{"label_smoothing", 0.2}, {"ignore_label", ignored}});
              },
          .reference =
              [=](const Arrays& in) {
                const int64_t n = in[0].shape[-1];
                const auto label = [&](int64_t row, int64_t k) { return in[1][row] == static_cast<double>(k); };
                Arrays results = CrossEntropy(in[0], 0.2, label);
                Array dlogits(in[0].shape);
                for (int64_t row = 0; row < in[1].size(); ++row) {
                  const bool none = !ignored.empty() && static_cast<double>(ignored[0]) == in[1][row];
                  if (none) results[0][row] = 0;
                  double sum = 0;
                  for (int64_t k = 0; k < n; ++k) sum += std::exp(in[0][row * n + k]);
                  for (int64_t k = 0; k < n; ++k) {
                    const double target = 0.8 * (label(row, k) ? 1 : 0) + 0.2 / static_cast<double>(n);
                    const double slope = std::exp(in[0][row * n + k]) / sum - target;
                    dlogits[row * n + k] = none ? 0 : slope * in[2][row];
                  }
                }
                results.push_back(dlogits);
                return results;
              },
          .more_shapes = {{{1, 5}, {1}, {1}}, {{0, 5}, {0}, {0}}, {{70, 601}, {70}, {70}}, {{2, 4097}, {2}, {2}}},
          .tolerance = 8,
          .gradient = false};
}

std::vector<OpCase> Losses() {
  std::vector<OpCase> cases = {
      SparseCase("SparseCrossEntropy", DType::kInt32, {}),
      SparseCase("SparseCrossEntropySmoothed", DType::kInt64, {.label_smoothing = 0.2}),
      SparseCase("SparseCrossEntropyIgnoresAClass", DType::kInt32, {.ignore_label = 2}),
      WithGradientCase("SparseCrossEntropyWithGradient", {}),
      WithGradientCase("SparseCrossEntropyWithGradientIgnoresAClass", {2}),
      SparseCase("SparseCrossEntropyIgnoresMinusOne", DType::kInt64, {.label_smoothing = 0.2, .ignore_label = -1}, -1)};
  cases.push_back(
      {.name = "DenseCrossEntropy",
       .inputs = {{.shape = {4, 5}, .low = -3, .high = 3},
                  {.shape = {4, 5}, .low = 0, .high = 1, .differentiable = false}},
       .build =
           [](const Scope& scope, const Ins& in) {
             return Outs{ops::SoftmaxCrossEntropy(scope, in[0], in[1], {.label_smoothing = 0.1})};
           },
       .reference =
           [](const Arrays& in) {
             const int64_t n = in[0].shape[-1];
             return CrossEntropy(in[0], 0.1, [&](int64_t row, int64_t k) { return in[1][row * n + k]; });
           },
       .more_shapes =
           {{{1, 1}, {1, 1}}, {{0, 5}, {0, 5}}, {{3, 0}, {3, 0}}, {{70, 600}, {70, 600}}, {{2, 2051}, {2, 2051}}},
       .tolerance = 4,
       .unknown_axes = {0, 1}});
  cases.push_back(
      {.name = "SigmoidCrossEntropy",
       .inputs = {{.shape = {4, 5}, .low = -3, .high = 3, .gap = 2e-5}, {.shape = {4, 5}, .low = 0, .high = 1}},
       .build = [](const Scope& scope, const Ins& in) { return Outs{ops::SigmoidCrossEntropy(scope, in[0], in[1])}; },
       .reference =
           [](const Arrays& in) {
             Array y(in[0].shape);
             for (int64_t i = 0; i < y.size(); ++i) {
               const double p = Sigmoid(in[0][i]);
               y[i] = -in[1][i] * std::log(p) - (1 - in[1][i]) * std::log(1 - p);
             }
             return Arrays{y};
           },
       .more_shapes = {{{}, {}}, {{0}, {0}}, {{300, 301}, {300, 301}}},
       .tolerance = 4});
  const auto pair = [&](const std::string& name, auto op, auto reference) {
    cases.push_back(
        {.name = name,
         .inputs = {{.shape = {3, 5}, .low = -2, .high = 2, .gap = 2e-3}, {.shape = {3, 5}, .low = 3, .high = 4}},
         .build = [=](const Scope& scope, const Ins& in) { return Outs{op(scope, in[0], in[1])}; },
         .reference = reference,
         .more_shapes = {{{1, 1}, {1, 1}}, {{0, 3}, {0, 3}}, {{90, 301}, {90, 301}}},
         .tolerance = 8,
         .unknown_axes = {0, 1}});
  };
  pair(
      "MeanSquaredLoss", [](const Scope& s, Output x, Output t) { return ops::MeanSquaredLoss(s, x, t); },
      [](const Arrays& in) {
        Array y{Shape()};
        for (int64_t i = 0; i < in[0].size(); ++i) y[0] += std::pow(in[0][i] - in[1][i], 2);
        y[0] /= static_cast<double>(in[0].size());
        return Arrays{y};
      });
  // The inputs differ by 1 to 6.
  pair(
      "HuberLoss", [](const Scope& s, Output x, Output t) { return ops::HuberLoss(s, x, t, 3); },
      [](const Arrays& in) {
        Array y(in[0].shape);
        for (int64_t i = 0; i < y.size(); ++i) {
          const double d = std::abs(in[0][i] - in[1][i]);
          y[i] = d <= 3 ? d * d / 2 : 3 * (d - 1.5);
        }
        return Arrays{y};
      });
  pair(
      "KlDivergence", [](const Scope& s, Output log_q, Output p) { return ops::KlDivergence(s, p, log_q); },
      [](const Arrays& in) {
        Array y(in[0].shape.Remove(-1));
        const int64_t n = in[0].shape[-1];
        for (int64_t i = 0; i < in[0].size(); ++i) y[i / n] += in[1][i] * (std::log(in[1][i]) - in[0][i]);
        return Arrays{y};
      });
  return cases;
}

}  // namespace

std::vector<OpCase> NnCases() {
  std::vector<OpCase> cases = Activations();
  cases.push_back(SoftmaxCase("SoftmaxLastAxis", false, -1, 0.6));
  cases.push_back(SoftmaxCase("SoftmaxMiddleAxis", false, 1, 2));
  cases.push_back(SoftmaxCase("SoftmaxFirstAxis", false, 0, 1));
  cases.push_back(SoftmaxCase("LogSoftmaxLastAxis", true, 2, 0.6));
  cases.push_back(SoftmaxCase("LogSoftmaxMiddleAxis", true, -2, 1));
  for (OpCase& op_case : Losses()) cases.push_back(std::move(op_case));
  cases.push_back({.name = "BiasAdd",
                   .inputs = {{{2, 3, 5}}, {{5}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::BiasAdd(scope, in[0], in[1])}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (int64_t i = 0; i < y.size(); ++i) y[i] += in[1][i % in[1].size()];
                         return Arrays{y};
                       },
                   .more_shapes = {{{1}, {1}}, {{0, 4}, {4}}, {{3, 0}, {0}}, {{4000, 33}, {33}}, {{700, 24}, {24}}},
                   .tolerance = 4});
  cases.push_back(
      {.name = "CheckNumerics",
       .inputs = {{{2, 3}}},
       .build = [](const Scope& scope, const Ins& in) { return Outs{ops::CheckNumerics(scope, in[0], "x")}; },
       .reference = [](const Arrays& in) { return Arrays{in[0]}; },
       .more_shapes = {{{}}, {{0}}, {{1000}}}});
  cases.push_back({.name = "Dropout",
                   .inputs = {{{5, 7}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Dropout(scope, in[0], 0.4)}; },
                   .more_shapes = {{{}}, {{0, 3}}, {{3, 0}}, {{300, 301}}, {{5, 2, 12}}, {{300, 304}}, {{2, 1283}}}});
  cases.push_back(
      {.name = "DropoutByCounters",
       .inputs = {{{5, 7}},
                  {.shape = {}, .dtype = DType::kInt64, .values = {9}},
                  {.shape = {}, .dtype = DType::kInt64, .values = {13}}},
       .build = [](const Scope& scope,
                   const Ins& in) { return Outs{ops::Dropout(scope.RandomCounters(in[1], in[2]), in[0], 0.4)}; },
       .more_shapes = {{{6, 8}, {}, {}}}});
  return cases;
}

}  // namespace belfry::harness
