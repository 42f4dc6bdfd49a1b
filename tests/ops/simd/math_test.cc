#include "ops/simd/math_impl.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/simd/vector_impl.h"
#include "tests/main/testing.h"
#include "tests/ops/simd/ulps.h"

namespace belfry::ops::simd {
namespace {

using Exact = long double (*)(long double);

// Numbers of all exponents and both signs, numbers of the size of 1, and the special ones.
template <class T>
std::vector<T> Arguments(int64_t count) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed() + 1);
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::vector<T> x = {0, T(-0.0), kInfinity, -kInfinity, std::numeric_limits<T>::quiet_NaN(), 1, -1};
  for (const T size : {std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max(), std::numeric_limits<T>::epsilon()}) {
    x.push_back(size), x.push_back(-size);
  }
  std::uniform_real_distribution<T> wide(-120, 120), narrow(-2, 2);
  while (static_cast<int64_t>(x.size()) < count) {
    x.push_back(std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(random())));
    x.push_back(sizeof(T) == 8 ? wide(random) * T(6.3) : wide(random));
    x.push_back(narrow(random));
  }
  return x;
}

// On registers and on single numbers.
template <class T, class F>
void ExpectWithin(double ulps, const std::string& name, const F& f, Exact exact) {
  const std::vector<T> x = Arguments<T>(200'000);
  std::vector<T> y(x.size());
  Map<T>(static_cast<int64_t>(x.size()), x.data(), y.data(), f);
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(static_cast<long double>(x[i]));
    ASSERT_LE(Ulps(y[i], expected), ulps) << name << "(" << x[i] << ") = " << y[i] << ", but it is " << expected;
    ASSERT_LE(Ulps(f(x[i]), expected), ulps) << name << "(" << x[i] << ") of one number";
  }
}
template <class F>
void ExpectBothWithin(double ulps, const std::string& name, const F& f, Exact exact) {
  ExpectWithin<float>(ulps, name, f, exact);
  ExpectWithin<double>(ulps, name, f, exact);
}

TEST(VectorMath, IsWithinTwoUlpOfTheExactResult) {
  ExpectBothWithin(
      2, "Exp", [](auto x) { return Exp(x); }, [](long double x) { return std::exp(x); });
  ExpectBothWithin(
      2, "Expm1", [](auto x) { return Expm1(x); }, [](long double x) { return std::expm1(x); });
  ExpectBothWithin(
      2, "Log", [](auto x) { return Log(x); }, [](long double x) { return std::log(x); });
  ExpectBothWithin(
      2, "Log1p", [](auto x) { return Log1p(x); }, [](long double x) { return std::log1p(x); });
  ExpectBothWithin(
      2, "Tanh", [](auto x) { return Tanh(x); }, [](long double x) { return std::tanh(x); });
  ExpectBothWithin(
      2, "Sigmoid", [](auto x) { return Sigmoid(x); },
      [](long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); });
  ExpectBothWithin(
      2, "SoftplusTail", [](auto x) { return SoftplusTail(x); },
      [](long double x) { return std::log1p(std::exp(-std::abs(x))); });
  ExpectWithin<float>(
      2, "Erf", [](auto x) { return Erf(x); }, [](long double x) { return std::erf(x); });
}

// Below the smallest normal number they are 0.
TEST(VectorMath, ExponentialsOfNegativeNumbersAreWithinTwoUlp) {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    for (T x = 0; x > -800; x = x * T(1.001) - T(1e-4)) {
      for (const auto& [y, exact] : {std::pair(ExpOfNegative(x), std::exp(static_cast<long double>(x))),
                                     std::pair(Exp2OfNegative(x), std::exp2(static_cast<long double>(x)))}) {
        if (exact < 1.001L * std::numeric_limits<T>::min()) {
          ASSERT_LE(y, 1.001L * std::numeric_limits<T>::min()) << "of " << x;
        } else {
          ASSERT_LE(Ulps(y, exact), 2) << "of " << x;
        }
      }
    }
    EXPECT_EQ(ExpOfNegative(T(-0.0)), 1);
    EXPECT_EQ(ExpOfNegative(std::numeric_limits<T>::lowest()), 0);
    EXPECT_EQ(ExpOfNegative(-kInfinity), 0);
    EXPECT_EQ(Exp2OfNegative(-kInfinity), 0);
    EXPECT_TRUE(std::isnan(ExpOfNegative(std::numeric_limits<T>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(Exp2OfNegative(std::numeric_limits<T>::quiet_NaN())));
  };
  check(0.f);
  check(0.);
}

TEST(VectorMath, AnElementsPlaceDoesNotMatter) {
  const std::vector<float> x = Arguments<float>(400);
  std::vector<float> all(x.size());
  const auto f = [](auto v) { return Tanh(v) + Exp(v) + Log1p(v); };
  Map<float>(static_cast<int64_t>(x.size()), x.data(), all.data(), f);
  for (int64_t n = 0; n <= 33; ++n) {
    for (int64_t first = 0; first < 40; ++first) {
      std::vector<float> y(n + 1, 7.f);
      Map<float>(n, x.data() + first, y.data(), f);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(all[first + i])) << n << " from " << first;
      }
      ASSERT_EQ(y[n], 7.f) << "the element behind the last";
    }
  }
}

}  // namespace
}  // namespace belfry::ops::simd
