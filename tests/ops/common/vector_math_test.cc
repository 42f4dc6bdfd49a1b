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

}  // namespace
}  // namespace belfry::ops
