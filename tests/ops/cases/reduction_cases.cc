#include <string>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// For each element of `x`, the index of the element of the result that it goes into.
std::vector<int64_t> Targets(const Shape& x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i, target = 0, stride = 1;
    for (int axis = x.rank(); axis-- > 0; rest /= x[axis]) {
      bool reduced = false;
      for (const int64_t a : axes) reduced = reduced || (a + x.rank()) % x.rank() == axis;
      if (reduced) continue;
      target += rest % x[axis] * stride;
      stride *= x[axis];
    }
    targets.push_back(target);
  }
  return targets;
}

Shape Reduced(const Shape& x, const std::vector<int64_t>& axes, bool keep_dims) {
  std::vector<int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    bool reduced = false;
    for (const int64_t a : axes) reduced = reduced || (a + x.rank()) % x.rank() == axis;
    if (!reduced) dims.push_back(x[axis]);
    if (reduced && keep_dims) dims.push_back(1);
  }
  return Shape(dims);
}

OpCase SumCase(const std::string& name, const Shape& shape, const std::vector<int64_t>& axes, bool keep_dims,
               bool mean = false) {
  return {.name = name,
          .inputs = {{shape}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{mean ? ops::Mean(scope, in[0], axes, keep_dims) : ops::Sum(scope, in[0], axes, keep_dims)};
              },
          .reference =
              [=](const Arrays& in) {
                Array y(Reduced(in[0].shape, axes, keep_dims));
                const std::vector<int64_t> targets = Targets(in[0].shape, axes);
                for (int64_t i = 0; i < in[0].size(); ++i) y[targets[i]] += in[0][i];
                const double count = static_cast<double>(in[0].size()) / static_cast<double>(y.size());
                for (double& v : y.values) v = mean ? v / count : v;
                return Arrays{y};
              },
          .unknown_axes = {0, 1}};
}

}  // namespace

std::vector<OpCase> ReductionCases() {
  std::vector<OpCase> cases;
  cases.push_back(SumCase("SumInner", {3, 7}, {-1}, false));
  cases.back().more_shapes = {{{1, 1}}, {{0, 5}}, {{5, 0}}, {{3, 70001}}, {{600, 129}}};
  cases.back().dtypes.push_back(DType::kInt32);
  cases.push_back(SumCase("SumOuter", {5, 4}, {0}, true));
  cases.back().more_shapes = {{{0, 3}}, {{1, 1}}, {{70, 300}}, {{3000, 40}}};
  cases.push_back(SumCase("SumAll", {3, 4, 5}, {0, 1, 2}, false));
  cases.back().more_shapes = {{{0, 1, 1}}, {{1, 1, 1}}, {{3, 5, 20001}}};
  cases.push_back(SumCase("SumOuterAndInner", {3, 4, 2, 5}, {0, 2, 3}, false));
  cases.push_back(SumCase("SumMiddle", {3, 4, 5}, {1}, true));
  cases.back().more_shapes = {{{2, 65, 130}}, {{2, 0, 3}}};
  cases.push_back(SumCase("SumAlternate", {2, 3, 4, 5}, {0, 2}, false));
  cases.push_back(SumCase("SumNothing", {2, 3}, {}, false));
  cases.push_back(SumCase("MeanInner", {3, 7}, {1}, true, true));
  cases.push_back(SumCase("MeanImage", {2, 3, 4, 5}, {1, 2}, false, true));
  cases.back().more_shapes = {{{8, 17, 19, 131}}};
  cases.push_back({.name = "SumLike",
                   .inputs = {{{2, 3, 4, 5}}, {{4, 1}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::SumLike(scope, in[0], in[1])}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y(in[1].shape);
                         for (int64_t i = 0; i < in[0].size(); ++i) y[i / 5 % 4] += in[0][i];
                         return Arrays{y};
                       },
                   .tolerance = 2});
  return cases;
}

}  // namespace belfry::harness
