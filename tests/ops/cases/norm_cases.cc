#include <algorithm>
#include <cmath>

#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

OpCase LayerNormCase() {
  return {.name = "LayerNorm",
          .inputs = {{{3, 2, 5}, -1, 2}, {{2, 5}, 0.5, 2}, {{2, 5}}},
          .build = [](const Scope& scope, const Ins& in) { return Outs{ops::LayerNorm(scope, in[0], in[1], in[2])}; },
          .reference =
              [](const Arrays& in) {
                const int64_t n = in[1].size(), rows = n == 0 ? 0 : in[0].size() / n;
                Array y(in[0].shape);
                for (int64_t row = 0; row < rows; ++row) {
                  double mean = 0, variance = 0;
                  for (int64_t i = 0; i < n; ++i) mean += in[0][row * n + i] / static_cast<double>(n);
                  for (int64_t i = 0; i < n; ++i) {
                    variance += std::pow(in[0][row * n + i] - mean, 2) / static_cast<double>(n);
                  }
                  for (int64_t i = 0; i < n; ++i) {
                    y[row * n + i] = (in[0][row * n + i] - mean) / std::sqrt(variance + 1e-5) * in[1][i] + in[2][i];
                  }
                }
                return Arrays{y};
              },
          .more_shapes = {{{4, 3}, {3}, {3}},
                          {{0, 3}, {3}, {3}},
                          {{90, 601}, {601}, {601}},
                          {{7}, {7}, {7}},
                          // Rows that GPUs keep in registers, of few packs and of many.
                          {{40, 64}, {64}, {64}},
                          {{9, 1000}, {1000}, {1000}},
                          {{3, 2056}, {2056}, {2056}},
                          {{2, 8192}, {8192}, {8192}}},
          .tolerance = 16,
          .gradient_tolerance = 16};
}

OpCase RmsNormCase() {
  return {.name = "RmsNorm",
          .inputs = {{{3, 2, 5}, -1, 2}, {{2, 5}, 0.5, 2}},
          .build = [](const Scope& scope, const Ins& in) { return Outs{ops::RmsNorm(scope, in[0], in[1], 1e-5)}; },
          .reference =
              [](const Arrays& in) {
                const int64_t n = in[1].size(), rows = n == 0 ? 0 : in[0].size() / n;
                Array y(in[0].shape);
                for (int64_t row = 0; row < rows; ++row) {
                  double squares = 0;
                  for (int64_t i = 0; i < n; ++i) squares += std::pow(in[0][row * n + i], 2) / static_cast<double>(n);
                  for (int64_t i = 0; i < n; ++i) {
                    y[row * n + i] = in[0][row * n + i] / std::sqrt(squares + 1e-5) * in[1][i];
                  }
                }
                return Arrays{y};
              },
          .more_shapes = {{{4, 3}, {3}},
                          {{1}, {1}},
                          {{0, 3}, {3}},
                          {{3, 0}, {0}},
                          {{90, 601}, {601}},
                          {{2, 2051}, {2051}},
                          {{9, 72}, {72}},
                          {{5, 808}, {808}},
                          {{3, 5000}, {5000}}},
          .tolerance = 16,
          .gradient_tolerance = 16};
}

// An addition before the norm of a case, and the sum as another result.
OpCase AddBefore(OpCase norm) {
  const auto reference = norm.reference;
  norm.name = "Add" + norm.name;
  norm.inputs.insert(norm.inputs.begin() + 1, norm.inputs[0]);
  for (std::vector<Shape>& shapes : norm.more_shapes) shapes.insert(shapes.begin() + 1, Shape(shapes[0]));
  norm.build = [op = norm.name](const Scope& scope, const Ins& in) {
    return scope.AddAll(op, in, {{"epsilon", 1e-5}});
  };
  norm.reference = [=](const Arrays& in) {
    Arrays sum = in;
    for (int64_t i = 0; i < sum[0].size(); ++i) sum[0][i] += in[1][i];
    sum.erase(sum.begin() + 1);
    return Arrays{sum[0], reference(sum)[0]};
  };
  norm.tolerance = 32;
  norm.gradient = false;
  return norm;
}

// The gradient of layer norm or RMS norm for dy, input 2, and input 3 added to that of x.
OpCase GradientThenAdd(const std::string& name, bool centred) {
  const auto reference = [=](const Arrays& in) {
    const int64_t n = in[1].size(), rows = n == 0 ? 0 : in[0].size() / n;
    const auto count = static_cast<double>(n);
    Arrays results{in[3], Array(in[1].shape), Array(in[1].shape)};
    for (int64_t row = 0; row < rows; ++row) {
      const auto x = [&](int64_t i) { return in[0][row * n + i]; };
      const auto dy = [&](int64_t i) { return in[2][row * n + i]; };
      double mean = 0, variance = 0, g = 0, gz = 0;
      for (int64_t i = 0; centred && i < n; ++i) mean += x(i) / count;
      for (int64_t i = 0; i < n; ++i) variance += std::pow(x(i) - mean, 2) / count;
      const double inverse = 1 / std::sqrt(variance + 1e-5);
      for (int64_t i = 0; i < n; ++i) {
        if (centred) g += dy(i) * in[1][i] / count;
        gz += dy(i) * in[1][i] * (x(i) - mean) * inverse / count;
      }
      for (int64_t i = 0; i < n; ++i) {
        const double z = (x(i) - mean) * inverse;
        results[0][row * n + i] += (dy(i) * in[1][i] - g - z * gz) * inverse;
        results[1][i] += dy(i) * z;
        results[2][i] += dy(i);
      }
    }
    if (!centred) results.pop_back();
    return results;
  };
  return {.name = name,
          .inputs = {{{3, 2, 5}, -1, 2}, {{2, 5}, 0.5, 2}, {{3, 2, 5}}, {{3, 2, 5}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return scope.AddAll(name, in, {{"epsilon", 1e-5}});
              },
          .reference = reference,
          .more_shapes = {{{4, 3}, {3}, {4, 3}, {4, 3}},
                          {{0, 3}, {3}, {0, 3}, {0, 3}},
                          {{90, 601}, {601}, {90, 601}, {90, 601}},
                          {{40, 64}, {64}, {40, 64}, {40, 64}},
                          {{5, 808}, {808}, {5, 808}, {5, 808}},
                          {{3, 8192}, {8192}, {3, 8192}, {3, 8192}},
                          {{2, 8200}, {8200}, {2, 8200}, {2, 8200}}},
          .tolerance = 32,
          .gradient = false,
          .thread_dependent = true};
}

// Groups of neighbouring channels of x [N, .., C].
OpCase GroupNormCase(const std::string& name, const Shape& x, int64_t groups, std::vector<std::vector<Shape>> more) {
  const Shape channels = {x[-1]};
  return {.name = name,
          .inputs = {{x, -1, 2}, {channels, 0.5, 2}, {channels}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{ops::GroupNorm(scope, in[0], in[1], in[2], groups)}; },
          .reference =
              [=](const Arrays& in) {
                const int64_t c = in[1].size(), size = c / groups,
                              places = in[0].shape.elements(1, in[0].shape.rank() - 1);
                Array y(in[0].shape);
                const auto n = static_cast<double>(places * size);
                for (int64_t group = 0; group * places * size < y.size(); ++group) {
                  const int64_t first = group / groups * places * c + group % groups * size;
                  const auto at = [&](int64_t k) { return first + k / size * c + k % size; };
                  double mean = 0, variance = 0;
                  for (int64_t k = 0; k < places * size; ++k) mean += in[0][at(k)] / n;
                  for (int64_t k = 0; k < places * size; ++k) variance += std::pow(in[0][at(k)] - mean, 2) / n;
                  for (int64_t k = 0; k < places * size; ++k) {
                    const int64_t channel = at(k) % c;
                    y[at(k)] = (in[0][at(k)] - mean) / std::sqrt(variance + 1e-5) * in[1][channel] + in[2][channel];
                  }
                }
                return Arrays{y};
              },
          .more_shapes = std::move(more),
          .tolerance = 16,
          .gradient_tolerance = 16};
}

}  // namespace

std::vector<OpCase> NormCases() {
  // The gradient of one element is 0, but for a rounding error of 6e-8 of dy scale times 1 / sqrt(epsilon) = 316.
  OpCase one = GroupNormCase("GroupNormOfOneElement", {1, 1}, 1, {});
  one.tolerance = 40;
  return {
      LayerNormCase(),
      RmsNormCase(),
      AddBefore(LayerNormCase()),
      AddBefore(RmsNormCase()),
      GradientThenAdd("LayerNormAddGrad", /*centred=*/true),
      GradientThenAdd("RmsNormAddGrad", /*centred=*/false),
      GroupNormCase("GroupNorm", {2, 3, 2, 6}, 3,
                    {{{0, 3, 2, 6}, {6}, {6}},
                     {{2, 0, 2, 6}, {6}, {6}},
                     {{3, 5, 7, 33}, {33}, {33}},
                     {{2, 2, 2, 1203}, {1203}, {1203}},
                     {{2, 5, 3, 24}, {24}, {24}}}),
      GroupNormCase("GroupNormOfPacks", {2, 3, 16}, 2, {{{3, 70, 64}, {64}, {64}}, {{1, 9, 48}, {48}, {48}}}),
      GroupNormCase("GroupNormOfMatrix", {5, 4}, 1, {{{3, 6}, {6}, {6}}, {{3, 2056}, {2056}, {2056}}}),
      // Groups that GPUs sum down the columns: of 1, 2, 4 and 8 channels at a time, in several parts of the places and
      // of the channels.
      GroupNormCase("GroupNormOfLongGroups", {2, 3, 8}, 4,
                    {{{0, 40, 41, 8}, {8}, {8}},
                     {{3, 20, 41, 8}, {8}, {8}},
                     {{1, 2100, 8}, {8}, {8}},
                     {{2, 300, 20}, {20}, {20}},
                     {{2, 11, 1040}, {1040}, {1040}},
                     {{1, 2, 4096}, {4096}, {4096}}}),
      one,
  };
}

}  // namespace belfry::harness
