#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "framework/compiler/eager.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/special_values.h"

namespace belfry::ops {
namespace {

constexpr double kUlp = 0x1p-23;

// Every 4,099th float of either sign up to 40.
std::vector<float> Floats() {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(40.0f); bits += 4099) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-values.back());
  }
  return values;
}

// Phi(x) and x phi(x), where phi is the density of the normal distribution.
long double Phi(long double x) { return std::erfc(-x * 0.70710678118654752440L) / 2; }
long double Moment(long double x) { return x * std::exp(-x * x / 2) * 0.39894228040143267794L; }

Tensor RunUnary(const char* op, const std::vector<float>& dy, const std::vector<float>& x) {
  const Shape shape = {static_cast<int64_t>(x.size())};
  std::vector<Tensor> inputs = {Tensor::Of<float>(x, shape)};
  if (!dy.empty()) inputs.insert(inputs.begin(), Tensor::Of<float>(dy, shape));
  const Attrs attrs = {{"T", DType::kFloat32}, {"approximate", false}};
  return RunOp(*BuiltinOps().Find(op), attrs, inputs).value()[0];
}

TEST(Gelu, IsExactUpToARelativeErrorEverywhere) {
  const std::vector<float> x = Floats();
  const Tensor y = RunUnary("Gelu", {}, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const long double of = x[i], expected = of * Phi(of);
    const double error = static_cast<double>(std::abs(y.data<float>()[i] - expected));
    const bool subnormal = std::abs(expected) < std::numeric_limits<float>::min();
    const double allowed = subnormal ? double{std::numeric_limits<float>::min()}
                                     : static_cast<double>(std::abs(expected) * (5 + of * of)) * kUlp;
    ASSERT_LE(error, allowed) << "of " << x[i] << ": " << y.data<float>()[i];
  }
}

TEST(GeluGrad, IsExactUpToAnErrorRelativeToItsLargerTerm) {
  const std::vector<float> x = Floats();
  const Tensor dx = RunUnary("GeluGrad", std::vector<float>(x.size(), 1), x);
  for (size_t i = 0; i < x.size(); ++i) {
    const long double of = x[i], larger = of < 0 ? Phi(of) - Moment(of) : 1;
    const double error = static_cast<double>(std::abs(dx.data<float>()[i] - (Phi(of) + Moment(of))));
    ASSERT_LE(error, static_cast<double>(larger * (5 + of * of)) * kUlp + 1e-37) << "of " << x[i];
  }
}

TEST(Gelu, OfSpecialValues) {
  const std::vector<float> x = {kNaN, kInfinity, -kInfinity, 1e30f, -1e30f, 0.0f, std::bit_cast<float>(0x7fc00001u)};
  const Tensor y = RunUnary("Gelu", {}, x), dx = RunUnary("GeluGrad", std::vector<float>(x.size(), 2), x);
  const float *value = y.data<float>(), *slope = dx.data<float>();
  for (const int nan : {0, 6}) {
    EXPECT_TRUE(std::isnan(value[nan]));
    EXPECT_TRUE(std::isnan(slope[nan]));
  }
  EXPECT_EQ(value[1], kInfinity);
  EXPECT_EQ(value[3], 1e30f);
  for (const int zero : {2, 4, 5}) EXPECT_EQ(value[zero], 0);
  for (const int one : {1, 3}) EXPECT_EQ(slope[one], 2);
  for (const int none : {2, 4}) EXPECT_EQ(slope[none], 0);
  EXPECT_NEAR(slope[5], 1, 1e-6);
}

// A tensor may be divided anywhere.
TEST(Gelu, AnElementDoesNotDependOnItsPlace) {
  std::vector<float> x;
  for (int i = 0; i < 77; ++i) x.push_back(0.13f * static_cast<float>(i - 40));
  const Tensor all = RunUnary("Gelu", {}, x);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(RunUnary("Gelu", {}, {x[i]}).data<float>()[0], all.data<float>()[i]);
}

}  // namespace
}  // namespace belfry::ops
