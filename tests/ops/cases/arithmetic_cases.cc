#include <cmath>
#include <functional>
#include <limits>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

const std::vector<DType> kNumbers = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                     DType::kInt32,   DType::kInt64,   DType::kUInt8};

using Binary = std::function<Output(const Scope&, Output, Output)>;

// y = f(a, b) with broadcasting. The reference walks the coordinates of the result.
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
                          {{400, 1}, {1, 200}}}};
}

// Operands on a grid that keeps them and their quotients away from the steps.
void AddSteps(std::vector<OpCase>& cases) {
  const size_t first = cases.size();
  cases.push_back(BinaryCase("Maximum", &ops::Maximum, [](double a, double b) { return a > b ? a : b; }));
  cases.push_back(BinaryCase("Minimum", &ops::Minimum, [](double a, double b) { return a < b ? a : b; }));
  cases.push_back(BinaryCase("FloorMod", &ops::FloorMod, [](double a, double b) { return a - b * std::floor(a / b); }));
  cases.back().inputs[0] = {.shape = {4}, .values = {-7.25, -0.5, 3.5, 9.75}};
  cases.back().inputs[1] = {.shape = {3, 1}, .values = {2, -3, 4}};
  cases.push_back(BinaryCase("FloorDiv", &ops::FloorDiv, [](double a, double b) { return std::floor(a / b); }));
  cases.back().inputs[0] = {.shape = {4}, .values = {-7.25, -0.5, 3.5, 9.75}};
  cases.back().inputs[1] = {.shape = {3, 1}, .values = {2, -3, 4}};
  cases.back().gradient = false;
  for (size_t i = first; i < cases.size(); ++i) cases[i].more_shapes = {{{}, {}}, {{0}, {1}}};
  for (const char* name : {"FloorMod", "FloorDiv"}) {
    OpCase integers = cases[name == std::string("FloorMod") ? first + 2 : first + 3];
    integers.name = std::string(name) + "OfIntegers";
    integers.dtypes = {DType::kInt32, DType::kInt64};
    integers.inputs[0] = {.shape = {6}, .values = {-7, -6, -1, 0, 5, 6}};
    integers.inputs[1] = {.shape = {4, 1}, .values = {3, -3, -1, 1}};
    integers.more_shapes.clear();
    cases.push_back(integers);
  }
}

void AddComparisons(std::vector<OpCase>& cases) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto compare = [&](const std::string& name, Binary op, std::function<double(double, double)> f) {
    OpCase op_case = BinaryCase(name, op, std::move(f));
    op_case.inputs = {{.shape = {6}, .values = {0, 1, nan, infinity, -1, 3}},
                      {.shape = {5, 1}, .values = {nan, 1, -1, infinity, 2}}};
    op_case.more_shapes = {{{3, 4}, {4}}, {{0}, {0}}};
    op_case.gradient = false;
    cases.push_back(op_case);
    op_case.name += "OfIntegers";
    op_case.inputs = {{.shape = {40}, .low = 0, .high = 3}, {.shape = {40}, .low = 0, .high = 3}};
    op_case.dtypes = {DType::kInt32, DType::kInt64, DType::kUInt8};
    cases.push_back(op_case);
  };
  compare("Equal", &ops::Equal, [](double a, double b) { return a == b; });
  compare("NotEqual", &ops::NotEqual, [](double a, double b) { return a != b; });
  compare("Less", &ops::Less, [](double a, double b) { return a < b; });
  compare("LessEqual", &ops::LessEqual, [](double a, double b) { return a <= b; });
  compare("Greater", &ops::Greater, [](double a, double b) { return a > b; });
  compare("GreaterEqual", &ops::GreaterEqual, [](double a, double b) { return a >= b; });
  const auto logic = [&](const std::string& name, Binary op, std::function<double(double, double)> f) {
    OpCase op_case = BinaryCase(name, op, std::move(f));
    op_case.inputs = {{.shape = {2}, .values = {0, 1}}, {.shape = {2, 1}, .values = {0, 1}}};
    op_case.more_shapes.clear();
    op_case.dtypes = {DType::kBool};
    op_case.gradient = false;
    cases.push_back(op_case);
  };
  logic("LogicalAnd", &ops::LogicalAnd, [](double a, double b) { return a * b; });
  logic("LogicalOr", &ops::LogicalOr, [](double a, double b) { return a + b > 0; });
  logic("LogicalXor", &ops::LogicalXor, [](double a, double b) { return a != b; });
  cases.push_back({.name = "LogicalNot",
                   .inputs = {{.shape = {2}, .values = {0, 1}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::LogicalNot(scope, in[0])}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (double& v : y.values) v = 1 - v;
                         return Arrays{y};
                       },
                   .dtypes = {DType::kBool},
                   .gradient = false});
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
  cases.push_back(BinaryCase("Pow", &ops::Pow, [](double a, double b) { return std::pow(a, b); }));
  cases.back().tolerance = 4;
  cases.push_back(BinaryCase("Atan2", &ops::Atan2, [](double a, double b) { return std::atan2(a, b); }));
  AddSteps(cases);
  AddComparisons(cases);
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
  // More terms than one launch on a GPU adds.
  cases.push_back({.name = "AddNOfMany",
                   .inputs = {{{3, 5}}, {{3, 5}}},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         Ins many(400, in[0]);
                         many[199] = in[1];
                         return Outs{ops::AddN(scope, many), ops::AddN(scope, Ins(7, in[0]))};
                       },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0], few = in[0];
                         for (int64_t i = 0; i < y.size(); ++i) y[i] = 399 * in[0][i] + in[1][i], few[i] *= 7;
                         return Arrays{y, few};
                       },
                   .tolerance = 16});
  return cases;
}

}  // namespace belfry::harness
