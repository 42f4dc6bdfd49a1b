#include "ops/recurrent/gates_impl.h"

#include <cmath>
#include <limits>

#include "ops/simd/vector_impl.h"
#include "tests/main/testing.h"
#include "tests/ops/simd/ulps.h"

namespace belfry::ops::recurrent {
namespace {

template <class T>
void ExpectClose() {
  using V = typename simd::Vector<T>::Lanes;
  // Both signs, sizes from 1e-12 to 1000 or so, and no round numbers.
  for (double size = 1e-12; size < 1e3; size *= 1.00037) {
    for (const T x : {static_cast<T>(size), static_cast<T>(-size)}) {
      const long double exact = x, e = std::exp(exact);
      const T sigmoid = GateSigmoid(V{} + x)[1], tanh = GateTanh(V{} + x)[0];
      const long double expected = exact < 0 ? e / (1 + e) : 1 / (1 + std::exp(-exact));
      if (expected < std::numeric_limits<T>::min()) {
        ASSERT_EQ(sigmoid, 0) << x;
      } else if (expected > 2 * std::numeric_limits<T>::min()) {
        ASSERT_LE(simd::Ulps(sigmoid, expected), 3) << x;
      }
      ASSERT_LE(simd::Ulps(tanh, std::tanh(exact)), 3) << x;
    }
  }
}

TEST(Gates, AreWithinThreeUlpAndZeroBelowNormalNumbers) {
  ExpectClose<float>();
  ExpectClose<double>();
}

TEST(Gates, SaturateAndKeepSignsAndNaN) {
  using V = simd::Vector<float>::Lanes;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {1e6f, kInfinity}) {
    EXPECT_EQ(GateSigmoid(V{} + x)[0], 1);
    EXPECT_EQ(GateSigmoid(V{} - x)[0], 0);
    EXPECT_EQ(GateTanh(V{} + x)[0], 1);
    EXPECT_EQ(GateTanh(V{} - x)[0], -1);
  }
  const V nan = V{} + std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(GateSigmoid(nan)[0]));
  EXPECT_TRUE(std::isnan(GateTanh(nan)[0]));
  EXPECT_TRUE(std::signbit(GateTanh(-V{})[0]));
  EXPECT_EQ(GateSigmoid(V{})[0], 0.5f);
}

}  // namespace
}  // namespace belfry::ops::recurrent
