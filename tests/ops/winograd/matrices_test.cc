#include "ops/winograd/matrices.h"
#include "tests/main/seed.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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

TEST(Matrices, ComputeWhatTheSumsDo) {
  ExpectMinimalFiltering<4, 3>();
  ExpectMinimalFiltering<3, 4>();
  ExpectMinimalFiltering<4, 5>();
  ExpectMinimalFiltering<5, 4>();
}

TEST(Matrices, PointsComeInPairs) {
  ExpectPairs<4, 3>();
  ExpectPairs<3, 4>();
  ExpectPairs<4, 5>();
  ExpectPairs<5, 4>();
}

}  // namespace
}  // namespace belfry::ops::winograd
