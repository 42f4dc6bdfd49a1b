#include "ops/common/vector_math_impl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace belfry::ops {
namespace {

template <class T>
void ExpectExponentials(T lowest) {
  constexpr T kUlp = std::numeric_limits<T>::epsilon(), kInfinity = std::numeric_limits<T>::infinity();
  for (T x = 0; x > lowest; x = x * T(1.0001) - std::numeric_limits<T>::min() - T(1e-4)) {
    const long double expected = std::exp(static_cast<long double>(x));
    ASSERT_LE(std::abs(ExpOfNegative(x) - expected), 2 * kUlp * expected) << "of " << x;
  }
  EXPECT_EQ(ExpOfNegative(T(-0.0)), 1);
  EXPECT_EQ(ExpOfNegative(-std::numeric_limits<T>::denorm_min()), 1);
  EXPECT_EQ(ExpOfNegative(lowest - 1), 0);
  EXPECT_EQ(ExpOfNegative(std::numeric_limits<T>::lowest()), 0);
  EXPECT_EQ(ExpOfNegative(-kInfinity), 0);
  EXPECT_TRUE(std::isnan(ExpOfNegative(std::numeric_limits<T>::quiet_NaN())));
}

TEST(ExpOfNegative, IsExactWithinTwoUlpUntilItIsSubnormal) {
  ExpectExponentials<float>(-87.33f);
  ExpectExponentials<double>(-708.39);
}

// Both functions, at points from the smallest numbers to those where they are flat.
template <class T>
void ExpectSigmoids() {
  constexpr T kUlp = std::numeric_limits<T>::epsilon(), kInfinity = std::numeric_limits<T>::infinity();
  for (T size = T(1e-30); size < 80; size *= T(1.003)) {
    for (const T x : {size, -size}) {
      const long double exact = static_cast<long double>(x), sigmoid = 1 / (1 + std::exp(-exact));
      ASSERT_LE(std::abs(SigmoidOf(x) - sigmoid), 4 * kUlp * sigmoid) << "of " << x;
      ASSERT_LE(std::abs(TanhOf(x) - std::tanh(exact)), 4 * kUlp * std::abs(std::tanh(exact))) << "of " << x;
    }
  }
  EXPECT_EQ(SigmoidOf(T(0)), T(0.5));
  EXPECT_EQ(SigmoidOf(kInfinity), 1);
  EXPECT_EQ(SigmoidOf(-kInfinity), 0);
  EXPECT_TRUE(std::signbit(TanhOf(T(-0.0))));
  EXPECT_EQ(TanhOf(kInfinity), 1);
  EXPECT_EQ(TanhOf(-kInfinity), -1);
  EXPECT_TRUE(std::isnan(SigmoidOf(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(TanhOf(std::numeric_limits<T>::quiet_NaN())));
}

TEST(SigmoidAndTanh, AreExactWithinFourUlp) {
  ExpectSigmoids<float>();
  ExpectSigmoids<double>();
}

}  // namespace
}  // namespace belfry::ops
