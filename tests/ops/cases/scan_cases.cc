#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// ArgMax or ArgMin along the middle axis of a tensor [outer, extent, inner].
OpCase ArgCase(const std::string& name, bool max, DType type) {
  return {.name = name,
          .inputs = {{.shape = {2, 5, 3}, .gap = 1e-3}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{max ? ops::ArgMax(scope, in[0], -2, type) : ops::ArgMin(scope, in[0], 1, type)};
              },
          .reference =
              [=](const Arrays& in) {
                const Shape& s = in[0].shape;
                Array y(s.Remove(1));
                for (int64_t o = 0; o < y.size(); ++o) {
                  const auto at = [&](int64_t i) { return in[0][(o / s[2] * s[1] + i) * s[2] + o % s[2]]; };
                  for (int64_t i = 1; i < s[1]; ++i) {
                    const double best = at(static_cast<int64_t>(y[o]));
                    if (max ? at(i) > best : at(i) < best) y[o] = static_cast<double>(i);
                  }
                }
                return Arrays{y};
              },
          .more_shapes = {{{1, 1, 1}}, {{0, 2, 3}}, {{3, 400, 1}}, {{2, 300, 3}}, {{2, 9001, 1}}},
          .gradient = false,
          .unknown_axes = {0, 1, 2}};
}

OpCase TopKCase(const std::string& name, int64_t k) {
  return {.name = name,
          .inputs = {{.shape = {3, 7}, .gap = 1e-3}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                const ops::TopKOutputs top = ops::TopK(scope, in[0], k);
                return Outs{top.values, top.indices};
              },
          .reference =
              [=](const Arrays& in) {
                Shape shape = in[0].shape;
                const int64_t n = shape[1];
                shape.set_dim(1, k);
                Array values(shape), indices(shape);
                for (int64_t row = 0; row < shape[0]; ++row) {
                  std::vector<int64_t> order(static_cast<size_t>(n));
                  std::iota(order.begin(), order.end(), 0);
                  std::stable_sort(order.begin(), order.end(),
                                   [&](int64_t i, int64_t j) { return in[0][row * n + i] > in[0][row * n + j]; });
                  for (int64_t i = 0; i < k; ++i) {
                    indices[row * k + i] = static_cast<double>(order[i]);
                    values[row * k + i] = in[0][row * n + order[i]];
                  }
                }
                return Arrays{values, indices};
              },
          .more_shapes = {{{0, 7}}, {{2, 300}}, {{2, 3000}}}};
}

OpCase CumsumCase(const std::string& name, bool exclusive, bool reverse) {
  return {.name = name,
          .inputs = {{{2, 4, 3}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{ops::Cumsum(scope, in[0], 1, {exclusive, reverse})};
              },
          .reference =
              [=](const Arrays& in) {
                const Shape& s = in[0].shape;
                Array y(s);
                for (int64_t i = 0; i < y.size(); ++i) {
                  for (int64_t j = 0; j < s[1]; ++j) {
                    const int64_t at = i / s[2] % s[1];
                    const bool counts = (reverse ? j > at : j < at) || (j == at && !exclusive);
                    if (counts) y[i] += in[0][i + (j - at) * s[2]];
                  }
                }
                return Arrays{y};
              },
          .more_shapes = {{{1, 1, 1}}, {{2, 0, 3}}, {{2, 500, 3}}},
          .unknown_axes = {0, 1}};
}

}  // namespace

std::vector<OpCase> ScanCases() {
  std::vector<OpCase> cases = {ArgCase("ArgMax", true, DType::kInt64), ArgCase("ArgMin", false, DType::kInt32)};
  cases[0].dtypes.push_back(DType::kInt32);
  cases.push_back(ArgCase("ArgMaxOfNan", true, DType::kInt64));
  cases.back().inputs[0] = {.shape = {1, 5, 1}, .values = {1, 3, std::nan(""), 7, std::nan("")}};
  cases.back().reference = [](const Arrays&) { return Arrays{Array({1, 1}, 2)}; };
  cases.back().more_shapes.clear();
  for (const int64_t k : {0, 1, 3, 7}) cases.push_back(TopKCase("Top" + std::to_string(k), k));
  cases.push_back({.name = "InTopK",
                   .inputs = {{.shape = {5, 4},
                               .values = {.1, .9, .5, .5, .1, .9, .5, .5, 1, 2, 3, 4, 0, INFINITY, 1, 2, 4, 3, 2, 1}},
                              {.shape = {5}, .dtype = DType::kInt32, .values = {2, 0, 3, 2, 4}}},
                   .build = [](const Scope& s, const Ins& in) { return Outs{ops::InTopK(s, in[0], in[1], 2)}; },
                   .reference =
                       [](const Arrays&) {
                         Array y(Shape{5});
                         y.values = {1, 0, 1, 0, 0};
                         return Arrays{y};
                       },
                   .gradient = false});
  cases.push_back(CumsumCase("Cumsum", false, false));
  cases.push_back(CumsumCase("CumsumExclusive", true, false));
  cases.push_back(CumsumCase("CumsumReverse", false, true));
  return cases;
}

}  // namespace belfry::harness
