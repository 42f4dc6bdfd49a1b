#include "ops/winograd/matrices.h"

#include <cmath>
#include <random>
#include <vector>

#include "ops/winograd/transform_impl.h"
#include "tests/main/testing.h"

namespace belfry::ops::winograd {
namespace {

// y = A^T ((G g) o (B^T d)) in double, against the plain sums.
template <int m, int r>
void ExpectMinimalFiltering() {
  constexpr int n = m + r - 1;
  constexpr ToomCook<m, r> matrices = MakeToomCook<m, r>();
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> d(n), g(r), products(n);
  for (double& x : d) x = uniform(random);
  for (double& x : g) x = uniform(random);
  for (int j = 0; j < n; ++j) {
    double data = 0, filter = 0;
    for (int i = 0; i < n; ++i) data += static_cast<double>(matrices.data.at[j][i]) * d[i];
    for (int i = 0; i < r; ++i) filter += static_cast<double>(matrices.filter.at[j][i]) * g[i];
    products[j] = data * filter;
  }
  for (int i = 0; i < m; ++i) {
    double got = 0, want = 0;
    for (int j = 0; j < n; ++j) got += static_cast<double>(matrices.outputs.at[i][j]) * products[j];
    for (int k = 0; k < r; ++k) want += d[i + k] * g[k];
    EXPECT_NEAR(got, want, 1e-5) << "F(" << m << ", " << r << "), output " << i;
  }
}

// The transforms of float vectors, which share work between points and take other constants, against the matrix in
// double.
template <const auto& matrix, PointAxis axis>
void ExpectTransform() {
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<float> uniform(-1, 1);
  float values[matrix.columns];
  Lanes x[matrix.columns], y[matrix.rows];
  for (int i = 0; i < matrix.columns; ++i) {
    values[i] = uniform(random);
    x[i] = Lanes{} + values[i];
  }
  Transform<matrix, axis>(x, y);
  for (int j = 0; j < matrix.rows; ++j) {
    double want = 0, size = 0;
    for (int i = 0; i < matrix.columns; ++i) {
      want += static_cast<double>(matrix.at[j][i]) * values[i];
      size += std::abs(matrix.at[j][i]);
    }
    EXPECT_NEAR(y[j][0], want, size * matrix.columns * 0x1p-23)
        << matrix.rows << " x " << matrix.columns << ", row " << j;
  }
}

template <int m, int r>
void ExpectTransforms() {
  ExpectTransform<kDataMatrix<m, r>, PointAxis::kRows>();
  ExpectTransform<kFilterMatrix<m, r>, PointAxis::kRows>();
  ExpectTransform<kOutputMatrix<m, r>, PointAxis::kColumns>();
}

// The property that the transforms rely on to share half of the work between the points p and -p.
template <int m, int r>
void ExpectPairs() {
  constexpr int n = m + r - 1;
  constexpr ToomCook<m, r> matrices = MakeToomCook<m, r>();
  for (int j = 1; j + 1 < n; j += 2) {
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(matrices.data.at[j][i], (i % 2 == 0 ? 1 : -1) * matrices.data.at[j + 1][i]) << j << " " << i;
    }
    for (int i = 0; i < r; ++i) {
      EXPECT_EQ(matrices.filter.at[j][i], (i % 2 == 0 ? 1 : -1) * matrices.filter.at[j + 1][i]) << j << " " << i;
    }
    for (int i = 0; i < m; ++i) {
      EXPECT_EQ(matrices.outputs.at[i][j], (i % 2 == 0 ? 1 : -1) * matrices.outputs.at[i][j + 1]) << j << " " << i;
    }
  }
}

// Calls f.operator()<m, r>() for all sizes in use: a filter of r taps, and its gradient with the roles exchanged.
template <class F>
void ForAllSizes(const F& f) {
  f.template operator()<4, 3>();
  f.template operator()<3, 4>();
  f.template operator()<5, 3>();
  f.template operator()<3, 5>();
  f.template operator()<7, 3>();
  f.template operator()<3, 7>();
  f.template operator()<8, 3>();
  f.template operator()<3, 8>();
  f.template operator()<4, 5>();
  f.template operator()<5, 4>();
  f.template operator()<6, 5>();
  f.template operator()<5, 6>();
}

TEST(Matrices, ComputeWhatTheSumsDo) {
  ForAllSizes([]<int m, int r>() { ExpectMinimalFiltering<m, r>(); });
}

TEST(Matrices, AreWhatTransformsApply) {
  ForAllSizes([]<int m, int r>() { ExpectTransforms<m, r>(); });
}

// A single point, if their number is odd, stands at different distances from both points of a pair.
TEST(Matrices, PointsComeInPairs) {
  ForAllSizes([]<int m, int r>() {
    if constexpr ((m + r) % 2 == 1) ExpectPairs<m, r>();
  });
}

}  // namespace
}  // namespace belfry::ops::winograd
