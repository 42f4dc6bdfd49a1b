// Norms of rows whose squares overflow or vanish in the dtype, against long double.
#include "ops/common/square_range_impl.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

constexpr int64_t kRows = 3, kColumns = 12;
constexpr int64_t kGroups = 2;

enum class Norm { kLayer, kRms, kGroup };

std::string NameOf(Norm norm) {
  return norm == Norm::kLayer ? "LayerNorm" : norm == Norm::kRms ? "RmsNorm" : "GroupNorm";
}

struct Values {
  std::vector<long double> y, dx, dscale = std::vector<long double>(kColumns);
};

long double ScaleOf(int64_t c) { return 1 + 0.25L * static_cast<long double>(c % 3); }

// With an offset of 0.5, and the gradient dy.
Values Reference(Norm norm, const std::vector<long double>& x, const std::vector<long double>& dy, double epsilon) {
  Values values{x, x};
  const int64_t n = norm == Norm::kGroup ? kColumns / kGroups : kColumns;
  for (int64_t from = 0; from < kRows * kColumns; from += n) {
    long double mean = 0, squares = 0, g_mean = 0, gz_mean = 0;
    const auto count = static_cast<long double>(n);
    for (int64_t i = from; i < from + n; ++i) mean += norm == Norm::kRms ? 0 : x[i] / count;
    for (int64_t i = from; i < from + n; ++i) squares += (x[i] - mean) * (x[i] - mean) / count;
    const long double inverse = 1 / std::sqrt(squares + epsilon);
    const auto z = [&](int64_t i) { return (x[i] - mean) * inverse; };
    const auto g = [&](int64_t i) { return dy[i] * ScaleOf(i % kColumns); };
    for (int64_t i = from; i < from + n; ++i) {
      g_mean += norm == Norm::kRms ? 0 : g(i) / count;
      gz_mean += g(i) * z(i) / count;
    }
    for (int64_t i = from; i < from + n; ++i) {
      values.y[i] = z(i) * ScaleOf(i % kColumns) + (norm == Norm::kRms ? 0 : 0.5L);
      values.dx[i] = (g(i) - g_mean - z(i) * gz_mean) * inverse;
      values.dscale[i % kColumns] += dy[i] * z(i);
    }
  }
  return values;
}

template <class T>
void ExpectNear(const Tensor& found, const std::vector<long double>& expected, const std::string& what) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(expected.size()));
  long double largest = 0;
  for (long double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    const T value = found.data<T>()[i];
    if (largest > std::numeric_limits<T>::max()) continue;  // no T holds the gradient
    EXPECT_NEAR(static_cast<double>(value / static_cast<T>(largest)), static_cast<double>(expected[i] / largest),
                64 * std::numeric_limits<T>::epsilon())
        << what << "[" << i << "] = " << value;
  }
}

// Row 1 has ordinary numbers, the others such of about `size`.
template <class T>
void ExpectExact(Norm norm, T size, double epsilon) {
  constexpr DType dtype = kDTypeOf<T>;
  const Shape shape = {kRows, kColumns};
  Tensor x(dtype, shape), dy(dtype, shape), scale(dtype, {kColumns});
  std::vector<long double> x_values, dy_values;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const T form = T(0.5) + static_cast<T>((i * 7) % 11) / 16, sign = i % 3 == 0 ? -1 : 1;
    x.data<T>()[i] = sign * form * (i / kColumns == 1 ? T(1) : size);
    dy.data<T>()[i] = static_cast<T>((i * 5) % 7) - 3;
    x_values.push_back(x.data<T>()[i]);
    dy_values.push_back(dy.data<T>()[i]);
  }
  for (int64_t c = 0; c < kColumns; ++c) scale.data<T>()[c] = static_cast<T>(ScaleOf(c));

  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output in = Const(scope, x), factors = Const(scope, scale), offsets = Fill(scope, {kColumns}, 0.5, dtype);
  const Output y = norm == Norm::kLayer ? LayerNorm(scope, in, factors, offsets, epsilon)
                   : norm == Norm::kRms ? RmsNorm(scope, in, factors, epsilon)
                                        : GroupNorm(scope, in, factors, offsets, kGroups, epsilon);
  ASSERT_OK_AND_ASSIGN(const auto gradients,
                       Gradients(scope, {Sum(scope, Mul(scope, y, Const(scope, dy)))}, {in, factors}));
  ASSERT_OK_AND_ASSIGN(const auto found, harness::Evaluate({y, gradients[0], gradients[1]}, {}));
  const Values expected = Reference(norm, x_values, dy_values, epsilon);
  const std::string what = absl::StrCat(NameOf(norm), " of ", size, " with epsilon ", epsilon, ": ");
  ExpectNear<T>(found[0], expected.y, what + "y");
  ExpectNear<T>(found[1], expected.dx, what + "dx");
  ExpectNear<T>(found[2], expected.dscale, what + "dscale");
}

TEST(NormsOfExtremeValues, AreThoseOfLongDouble) {
  for (const Norm norm : {Norm::kLayer, Norm::kRms, Norm::kGroup}) {
    for (const double epsilon : {0.0, 1e-35, 1e-5}) {
      for (const float size : {1e-36f, 1e-25f, 1e-18f, 1.f, 1e18f, 1e20f, 3e38f}) ExpectExact(norm, size, epsilon);
      for (const double size : {1e-300, 1e-200, 1.0, 1e100, 1e200, 1e308}) ExpectExact(norm, size, epsilon);
    }
  }
}

TEST(SquareScale, BringsTheLargestNearOne) {
  using Limits = std::numeric_limits<float>;
  for (const float largest : {Limits::min(), 1e-20f, 0.3f, 1.f, 1e20f, Limits::max()}) {
    const float scaled = largest * SquareScale(largest);
    EXPECT_GE(scaled, 1) << largest;
    EXPECT_LE(scaled, 4) << largest;
  }
  for (const float largest : {0.f, Limits::denorm_min(), Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_TRUE(std::isnormal(SquareScale(largest))) << largest;
  }
}

}  // namespace
}  // namespace belfry::ops
