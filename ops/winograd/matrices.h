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
};

// The points of evaluation besides infinity: 0, then pairs p and -p, which share half of their work (transform_impl.h).
template <int n>
constexpr std::array<double, n - 1> Points() {
  static_assert(n == 6 || n == 8);
  if constexpr (n == 6) {
    return {0, 1, -1, 2, -2};
  } else {
    return {0, 1, -1, 2, -2, 0.5, -0.5};
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

// Separate constants, because transforms are instantiated for one matrix.
template <int m, int r>
inline constexpr auto kDataMatrix = MakeToomCook<m, r>().data;
template <int m, int r>
inline constexpr auto kFilterMatrix = MakeToomCook<m, r>().filter;
template <int m, int r>
inline constexpr auto kOutputMatrix = MakeToomCook<m, r>().outputs;

}  // namespace belfry::ops::winograd
