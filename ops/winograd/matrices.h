// The matrices of Winograd's minimal filtering F(m, r): m outputs of a correlation with r taps from n = m + r - 1
// inputs by n products, y = A^T ((G g) o (B^T d)). See Winograd, "Arithmetic complexity of computations", 1980, and
// Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015. Constructed by Toom-Cook interpolation.
// Internal.
#pragma once

#include <array>

namespace belfry::ops::winograd {

template <int rows_, int columns_>
struct Matrix {
  static constexpr int rows = rows_, columns = columns_;
  float at[rows_][columns_] = {};
  float single = 0;  // of B^T: the point without a pair, at which all other rows vanish; 0: none
};

// The points of evaluation besides infinity: 0, then pairs p and -p, which share half of their work
// (transform_impl.h), then, if n is odd, a single one. Of small fractions, those with the smallest rounding errors of
// random convolutions.
template <int n>
constexpr std::array<double, n - 1> Points() {
  static_assert(n >= 6 && n <= 10);
  if constexpr (n == 6) {
    return {0, 1, -1, 2, -2};
  } else if constexpr (n == 7) {
    return {0, 1, -1, 2, -2, 0.5};
  } else if constexpr (n == 8) {
    return {0, 1, -1, 2, -2, 0.5, -0.5};
  } else if constexpr (n == 9) {
    return {0, 1, -1, 2, -2, 0.75, -0.75, 0.25};
  } else {
    return {0, 1, -1, 2.5, -2.5, 0.375, -0.375, 1.25, -1.25};
  }
}

template <int m, int r>
struct ToomCook {
  static constexpr int n = m + r - 1;
  Matrix<n, n> data;     // B^T
  Matrix<n, r> filter;   // G
  Matrix<m, n> outputs;  // A^T
};

// Coefficients of the product of (x - p) over all points except number `left_out`, lowest power first.
template <int n>
constexpr std::array<double, n> Polynomial(int left_out) {
  const std::array<double, n - 1> points = Points<n>();
  std::array<double, n> c{};
  c[0] = 1;
  for (int k = 0; k < n - 1; ++k) {
    if (k == left_out) continue;
    for (int i = n - 1; i >= 0; --i) c[i] = (i > 0 ? c[i - 1] : 0) - points[k] * c[i];
  }
  return c;
}

// A power of two that brings the largest coefficient of a row of B^T into [0.75, 1.5], so that no point's products
// dominate the rounding error. G is divided by the same factor, exactly.
template <int n>
constexpr double RowScale(const std::array<double, n>& row) {
  double largest = 0;
  for (double x : row) largest = x > largest ? x : -x > largest ? -x : largest;
  double scale = 1;
  while (largest * scale > 1.5) scale /= 2;
  while (largest * scale < 0.75) scale *= 2;
  return scale;
}

template <int m, int r>
constexpr ToomCook<m, r> MakeToomCook() {
  constexpr int n = m + r - 1;
  const std::array<double, n - 1> points = Points<n>();
  ToomCook<m, r> result;
  if (n % 2 == 1) result.data.single = static_cast<float>(points[n - 2]);
  for (int j = 0; j < n; ++j) {
    const bool infinity = j == n - 1;
    const std::array<double, n> row = Polynomial<n>(infinity ? -1 : j);
    const double scale = RowScale<n>(row);
    double denominator = 1;
    for (int k = 0; !infinity && k < n - 1; ++k) denominator *= k == j ? 1 : points[j] - points[k];
    for (int i = 0; i < n; ++i) result.data.at[j][i] = static_cast<float>(row[i] * scale);
    double power = 1;
    for (int i = 0; i < (m > r ? m : r); ++i) {
      if (i < r) {
        const double g = infinity ? (i == r - 1 ? 1 : 0) : power / denominator;
        result.filter.at[j][i] = static_cast<float>(g / scale);
      }
      if (i < m) result.outputs.at[i][j] = infinity ? (i == m - 1 ? 1.0f : 0.0f) : static_cast<float>(power);
      if (!infinity) power *= points[j];
    }
  }
  return result;
}

// The rows of B^T divided by x - single, as polynomials in x; the row of that point is 0.
template <int n>
constexpr Matrix<n, n - 1> Quotients(const Matrix<n, n>& data) {
  Matrix<n, n - 1> quotients;
  for (int j = 0; j < n; ++j) {
    double c = 0;
    for (int i = n - 1; i > 0 && j != n - 2; --i) {
      c = static_cast<double>(data.at[j][i]) + static_cast<double>(data.single) * c;
      quotients.at[j][i - 1] = static_cast<float>(c);
    }
  }
  return quotients;
}

// Separate constants, because transforms are instantiated for one matrix.
template <int m, int r>
inline constexpr auto kDataMatrix = MakeToomCook<m, r>().data;
template <const auto& data>
inline constexpr auto kQuotients = Quotients(data);
template <int m, int r>
inline constexpr auto kFilterMatrix = MakeToomCook<m, r>().filter;
template <int m, int r>
inline constexpr auto kOutputMatrix = MakeToomCook<m, r>().outputs;

}  // namespace belfry::ops::winograd
