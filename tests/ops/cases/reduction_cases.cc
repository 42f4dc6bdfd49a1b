#include <cmath>
#include <limits>
#include <string>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// For each element of `x`, the index of the result's element that it contributes to.
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

using Reduce = Output (*)(OpScope, Output, const ops::Axes&, bool);

// Reference: starts at `start`, then y = step(y, x) for each x in turn.
OpCase ReduceCase(const std::string& name, Reduce op, const Shape& shape, const std::vector<int64_t>& axes,
                  bool keep_dims, double start, double (*step)(double, double)) {
  return {.name = name,
          .inputs = {{shape}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{op(scope, in[0], axes, keep_dims)}; },
          .reference =
              [=](const Arrays& in) {
                Array y(Reduced(in[0].shape, axes, keep_dims), start);
                const std::vector<int64_t> targets = Targets(in[0].shape, axes);
                for (int64_t i = 0; i < in[0].size(); ++i) y[targets[i]] = step(y[targets[i]], in[0][i]);
                return Arrays{y};
              },
          .unknown_axes = {0, 1}};
}

OpCase SumCase(const std::string& name, const Shape& shape, const std::vector<int64_t>& axes, bool keep_dims) {
  return ReduceCase(name, &ops::Sum, shape, axes, keep_dims, 0, [](double a, double b) { return a + b; });
}

OpCase MeanCase(const std::string& name, const Shape& shape, const std::vector<int64_t>& axes, bool keep_dims) {
  OpCase op_case = SumCase(name, shape, axes, keep_dims);
  op_case.build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Mean(scope, in[0], axes, keep_dims)}; };
  op_case.reference = [sum = op_case.reference](const Arrays& in) {
    Arrays y = sum(in);
    for (double& v : y[0].values) v /= static_cast<double>(in[0].size()) / static_cast<double>(y[0].size());
    return y;
  };
  return op_case;
}

double Larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double Smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }

void AddExtremes(std::vector<OpCase>& cases) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto add = [&](const std::string& name, Reduce op, double start, double (*step)(double, double), double gap) {
    for (const auto& [suffix, axes] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
             {"Inner", {-1}}, {"Outer", {0}}, {"All", {0, 1, 2}}, {"Ends", {0, 2}}}) {
      cases.push_back(ReduceCase(name + suffix, op, {3, 2, 5}, axes, suffix == "Outer", start, step));
      cases.back().inputs[0].gap = gap;
      cases.back().more_shapes = {{{1, 1, 1}}, {{0, 2, 3}}, {{7, 3, 130}}, {{300, 2, 30}}};
    }
  };
  add("Max", &ops::Max, -kInfinity, &Larger, 1e-3);
  add("Min", &ops::Min, kInfinity, &Smaller, 1e-3);
  add(
      "Prod", &ops::Prod, 1, [](double a, double b) { return a * b; }, 0);
  OpCase nan = ReduceCase("MaxOfNan", &ops::Max, {2, 3}, {1}, false, -kInfinity, &Larger);
  nan.inputs[0].values = {1, std::nan(""), 2, -kInfinity, 3, kInfinity};
  nan.gradient = false;
  cases.push_back(nan);
  OpCase zeros = ReduceCase("ProdOfZeros", &ops::Prod, {3, 3}, {1}, false, 1, [](double a, double b) { return a * b; });
  zeros.inputs[0].values = {0, 2, 3, 0, 0, 4, 5, 6, 7};
  cases.push_back(zeros);
  cases.push_back(
      ReduceCase("Any", &ops::Any, {4, 3}, {1}, false, 0, [](double a, double b) { return a + b > 0 ? 1.0 : 0.0; }));
  cases.push_back(ReduceCase("All", &ops::All, {4, 3}, {0}, true, 1, [](double a, double b) { return a * b; }));
  for (size_t i = cases.size() - 2; i < cases.size(); ++i) {
    cases[i].dtypes = {DType::kBool};
    cases[i].inputs[0].values = {0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1};
    cases[i].gradient = false;
    cases[i].more_shapes = {{{0, 3}}, {{3, 0}}};
  }
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
  cases.back().more_shapes = {{{9, 3, 40, 50}}};
  cases.push_back(SumCase("SumMiddle", {3, 4, 5}, {1}, true));
  cases.back().more_shapes = {{{2, 65, 130}}, {{2, 0, 3}}, {{2, 700, 3}}};
  cases.push_back(SumCase("SumAlternate", {2, 3, 4, 5}, {0, 2}, false));
  cases.back().more_shapes = {{{20, 3, 40, 5}}};
  cases.push_back(SumCase("SumNothing", {2, 3}, {}, false));
  cases.push_back(MeanCase("MeanInner", {3, 7}, {1}, true));
  cases.push_back(MeanCase("MeanImage", {2, 3, 4, 5}, {1, 2}, false));
  cases.back().more_shapes = {{{8, 17, 19, 131}}};
  AddExtremes(cases);
  cases.push_back({.name = "L2Loss",
                   .inputs = {{{3, 5}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::L2Loss(scope, in[0])}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y;
                         for (const double x : in[0].values) y[0] += x * x / 2;
                         return Arrays{y};
                       },
                   .more_shapes = {{{0}}, {{}}, {{99, 1001}}},
                   .tolerance = 4});
  cases.push_back(
      {.name = "L2Losses",
       .inputs = {{{3, 5}}, {{4}}},
       .build =
           [](const Scope& scope, const Ins& in) {
             return Outs{scope.Add("L2Losses", {in[0], in[1]}, {{"factors", Tensor::Of<double>({0.5, 3})}})};
           },
       .reference =
           [](const Arrays& in) {
             Array y;
             for (const double x : in[0].values) y[0] += 0.5 * x * x / 2;
             for (const double x : in[1].values) y[0] += 3 * x * x / 2;
             return Arrays{y};
           },
       .more_shapes = {{{0}, {}}, {{99, 1001}, {20000}}},
       .tolerance = 4,
       .gradient = false});
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
