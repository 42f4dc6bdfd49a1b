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
                for (int64_t i = 0; i < y.size(); ++i) {
                  const int64_t first = i / (places * c) * places * c + i % c / size * size;
                  double mean = 0, variance = 0;
                  const auto n = static_cast<double>(places * size);
                  for (int64_t k = 0; k < places * size; ++k) mean += in[0][first + k / size * c + k % size] / n;
                  for (int64_t k = 0; k < places * size; ++k) {
                    variance += std::pow(in[0][first + k / size * c + k % size] - mean, 2) / n;
                  }
                  y[i] = (in[0][i] - mean) / std::sqrt(variance + 1e-5) * in[1][i % c] + in[2][i % c];
                }
                return Arrays{y};
              },
          .more_shapes = std::move(more),
          .tolerance = 16,
          .gradient_tolerance = 16};
}

}  // namespace

std::vector<OpCase> NormCases() {
  OpCase matrix = GroupNormCase("GroupNormOfMatrix", {5, 4}, 1, {{{1, 1}, {1}, {1}}});
  // One element has the gradient 0, times 1 / sqrt(epsilon) = 316 of a rounding error of 6e-8 of dy scale.
  matrix.tolerance = 40;
  return {
      LayerNormCase(),
      RmsNormCase(),
      GroupNormCase("GroupNorm", {2, 3, 2, 6}, 3,
                    {{{0, 3, 2, 6}, {6}, {6}},
                     {{2, 0, 2, 6}, {6}, {6}},
                     {{3, 5, 7, 33}, {33}, {33}},
                     {{2, 2, 2, 1203}, {1203}, {1203}},
                     {{2, 5, 3, 24}, {24}, {24}}}),
      GroupNormCase("GroupNormOfPacks", {2, 3, 16}, 2, {{{3, 70, 64}, {64}, {64}}, {{1, 9, 48}, {48}, {48}}}),
      matrix,
  };
}

}  // namespace belfry::harness
