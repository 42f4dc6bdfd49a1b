#include <cmath>
#include <limits>

#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

const std::vector<DType> kNumbers = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                     DType::kBFloat16, DType::kInt32,   DType::kInt64};
const std::vector<DType> kWide = {DType::kFloat32, DType::kFloat64};

using Unary = Output (*)(OpScope, Output);
using Function = double (*)(double);

struct Row {
  std::string name;
  Unary op;
  Function f;
  double low = -2, high = 2;
  bool gradient = true;
  double gap = 0;
  double tolerance = 1;
};

OpCase MakeCase(const Row& row, const std::string& suffix) {
  return {.name = row.name + suffix,
          .inputs = {{.shape = {3, 11}, .low = row.low, .high = row.high, .gap = row.gap}},
          .build = [op = row.op](const Scope& scope, const Ins& in) { return Outs{op(scope, in[0])}; },
          .reference =
              [f = row.f](const Arrays& in) {
                Array y = in[0];
                for (double& v : y.values) v = f(v);
                return Arrays{y};
              },
          .tolerance = row.tolerance,
          .gradient = row.gradient};
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double Sign(double x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }

std::vector<Row> Rows() {
  return {
      {"Abs", &ops::Abs, [](double x) { return std::abs(x); }, -2, 2, true, 1e-3},
      {"Neg", &ops::Neg, [](double x) { return -x; }},
      {"Sign", &ops::Sign, &Sign, -2, 2, false},
      {"Square", &ops::Square, [](double x) { return x * x; }},
      {"Exp", &ops::Exp, [](double x) { return std::exp(x); }},
      {"Expm1", &ops::Expm1, [](double x) { return std::expm1(x); }},
      {"Log", &ops::Log, [](double x) { return std::log(x); }, 0.2, 3},
      {"Log1p", &ops::Log1p, [](double x) { return std::log1p(x); }, -0.5, 3},
      {"Sqrt", &ops::Sqrt, [](double x) { return std::sqrt(x); }, 0.2, 3},
      {"Rsqrt", &ops::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.2, 3},
      {"Reciprocal", &ops::Reciprocal, [](double x) { return 1 / x; }, 0.3, 3},
      {"Sigmoid", &ops::Sigmoid, &Logistic, -6, 6},
      {"Tanh", &ops::Tanh, [](double x) { return std::tanh(x); }},
      {"Sin", &ops::Sin, [](double x) { return std::sin(x); }},
      {"Cos", &ops::Cos, [](double x) { return std::cos(x); }},
      {"Tan", &ops::Tan, [](double x) { return std::tan(x); }, -1, 1},
      {"Asin", &ops::Asin, [](double x) { return std::asin(x); }, -0.8, 0.8},
      {"Acos", &ops::Acos, [](double x) { return std::acos(x); }, -0.8, 0.8},
      {"Atan", &ops::Atan, [](double x) { return std::atan(x); }},
      {"Sinh", &ops::Sinh, [](double x) { return std::sinh(x); }},
      {"Cosh", &ops::Cosh, [](double x) { return std::cosh(x); }},
      {"Erf", &ops::Erf, [](double x) { return std::erf(x); }},
      {"Erfc", &ops::Erfc, [](double x) { return std::erfc(x); }},
      {"Floor", &ops::Floor, [](double x) { return std::floor(x); }, -3, 3, false},
      {"Ceil", &ops::Ceil, [](double x) { return std::ceil(x); }, -3, 3, false},
      {"Round", &ops::Round, [](double x) { return std::nearbyint(x); }, -3, 3, false},
      {"RoundThrough", &ops::RoundThrough, [](double x) { return std::nearbyint(x); }, -3, 3, false},
      {"IsNan", &ops::IsNan, [](double x) { return double(std::isnan(x)); }, -1, 1, false},
      {"IsInf", &ops::IsInf, [](double x) { return double(std::isinf(x)); }, -1, 1, false},
      {"IsFinite", &ops::IsFinite, [](double x) { return double(std::isfinite(x)); }, -1, 1, false},
  };
}

}  // namespace

std::vector<OpCase> UnaryCases() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<OpCase> cases;
  for (const Row& row : Rows()) {
    cases.push_back(MakeCase(row, ""));
    cases.back().more_shapes = {{{}}, {{0, 3}}, {{1}}, {{700}}};
    if (row.name == "Abs" || row.name == "Neg" || row.name == "Sign" || row.name == "Square") {
      cases.back().dtypes = kNumbers;
    }
    cases.push_back(MakeCase(row, "OfSpecialValues"));
    OpCase& special = cases.back();
    special.dtypes = kWide;
    special.gradient = false;
    special.inputs[0].shape = {18};
    special.inputs[0].values = {kNan, kInfinity, -kInfinity, 0,    -0.0, 1,    -1,    0.5,  -0.5,
                                1.5,  2.5,       -2.5,       1e-9, 40,   -200, 1e-30, 3e20, -1e-5};
    // For huge arguments the standard library's functions are not a useful reference for float32.
    if (row.name == "Sin" || row.name == "Cos" || row.name == "Tan") special.inputs[0].values[16] = 100;
    if (row.name == "Exp" || row.name == "Expm1" || row.name == "Sinh" || row.name == "Cosh" || row.name == "Square") {
      special.inputs[0].values[16] = 5;
      special.inputs[0].values[14] = -60;
    }
  }
  cases.push_back({.name = "TanhTwice",
                   .inputs = {{{5}}},
                   .build = [](const Scope& s, const Ins& in) { return Outs{ops::Tanh(s, ops::Tanh(s, in[0]))}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (double& v : y.values) v = std::tanh(std::tanh(v));
                         return Arrays{y};
                       },
                   .more_shapes = {{{300, 400}}}});
  cases.push_back({.name = "Scale",
                   .inputs = {{{2, 5}}},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Scale(scope, in[0], -0.75)}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (double& v : y.values) v *= -0.75;
                         return Arrays{y};
                       }});
  // Bounds between two cells of the grid on which inputs are drawn, for the gradient has a kink there.
  constexpr double kLow = -2 + 9 * 4.0 / 23, kHigh = -2 + 19 * 4.0 / 23;
  cases.push_back({.name = "ClipByValue",
                   .inputs = {{.shape = {3, 7}, .low = -2, .high = 2, .gap = 1e-3}},
                   .build = [](const Scope& s, const Ins& in) { return Outs{ops::ClipByValue(s, in[0], kLow, kHigh)}; },
                   .reference =
                       [](const Arrays& in) {
                         Array y = in[0];
                         for (double& v : y.values) v = v < kLow ? kLow : (v > kHigh ? kHigh : v);
                         return Arrays{y};
                       }});
  return cases;
}

}  // namespace belfry::harness
