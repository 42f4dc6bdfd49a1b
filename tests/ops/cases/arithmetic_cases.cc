#include <functional>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

const std::vector<DType> kNumbers = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                     DType::kInt32,   DType::kInt64,   DType::kUInt8};

using Binary = Output (*)(OpScope, Output, Output);

// y = f(a, b) on the shapes of broadcasting: the reference walks the result's coordinates.
OpCase BinaryCase(const std::string& name, Binary op, std::function<double(double, double)> f) {
  const auto at = [](const Array& x, const Shape& shape, int64_t i) {
    int64_t offset = 0, stride = 1;
    for (int axis = shape.rank(); axis-- > 0; i /= shape[axis]) {
      const int own = axis - (shape.rank() - x.shape.rank());
      if (own < 0) continue;
      offset += x.shape[own] == 1 ? 0 : i % shape[axis] * stride;
      stride *= x.shape[own];
    }
    return x[offset];
  };
  return {.name = name,
          .inputs = {{{2, 3, 5}, 1, 3}, {{3, 1}, 1, 3}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{op(scope, in[0], in[1])}; },
          .reference =
              [=](const Arrays& in) {
                Array y(BroadcastShapes(in[0].shape, in[1].shape).value());
                for (int64_t i = 0; i < y.size(); ++i) y[i] = f(at(in[0], y.shape, i), at(in[1], y.shape, i));
                return Arrays{y};
              },
          .more_shapes = {{{}, {}},
                          {{7}, {7}},
                          {{1}, {4, 1}},
                          {{}, {300}},
                          {{3, 517}, {517}},
                          {{3, 517}, {1}},
                          {{2, 1, 3, 1, 2}, {1, 4, 1, 5, 1}},
                          {{0, 3}, {1, 3}},
                          {{70000}, {70000}},
                          {{400, 1}, {1, 300}}}};
}

}  // namespace

std::vector<OpCase> ArithmeticCases() {
  std::vector<OpCase> cases;
  cases.push_back(BinaryCase("Add", &ops::Add, [](double a, double b) { return a + b; }));
  cases.push_back(BinaryCase("Mul", &ops::Mul, [](double a, double b) { return a * b; }));
  cases.push_back(
      BinaryCase("SquaredDifference", &ops::SquaredDifference, [](double a, double b) { return (a - b) * (a - b); }));
  for (OpCase& op_case : cases) op_case.dtypes = kNumbers;
  cases.push_back(BinaryCase("Sub", &ops::Sub, [](double a, double b) { return a - b; }));
  cases.push_back(BinaryCase("Div", &ops::Div, [](double a, double b) { return a / b; }));
  cases.push_back({.name = "AddN",
                   .inputs = {{{3, 5}}, {{3, 5}}, {{3, 5}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::AddN(scope, in)}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (int64_t i = 0; i < y.size(); ++i) y[i] += in[1][i] + in[2][i];
                         return Arrays{y};
                       },
                   .more_shapes = {{{}, {}, {}}, {{0}, {0}, {0}}, {{100, 1001}, {100, 1001}, {100, 1001}}}});
  return cases;
}

}  // namespace belfry::harness
