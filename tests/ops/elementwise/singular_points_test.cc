// Values and derivatives where a formula is singular: at 0 and at infinity.
#include <cmath>

#include "framework/graph/gradients.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "tests/ops/harness/special_values.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::NanSensitiveDoubleEq;

class SingularPoints : public testing::Test {
 protected:
  Output Of(const std::vector<double>& x) const {
    return Const(scope_, Tensor::Of<double>(x, {static_cast<int64_t>(x.size())}));
  }
  Output Gradient(Output y, Output x) const { return ValueOf(Gradients(scope_, {y}, {x})).at(0); }
  static void ExpectValues(const std::vector<double>& found, const std::vector<double>& expected,
                           double tolerance = 0) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isfinite(expected[i])) {
        EXPECT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i])) << i;
      } else {
        EXPECT_THAT(found[i], NanSensitiveDoubleEq(expected[i])) << i;
      }
    }
  }

  mutable Graph graph_{BuiltinOps()};
  const Scope scope_{graph_};
};

TEST_F(SingularPoints, PowOfZero) {
  const Output a = Of({0, 0, 0, 0, 2, kInfinity, 0}), b = Of({0, 1, 2, 3, 0, 0, -1});
  const Output y = Pow(scope_, a, b);
  ExpectValues(Values(Gradient(y, a)), {0, 1, 0, 0, 0, 0, -kInfinity});
  const Output x = Of({0, 2}), none = Fill(scope_, {}, 0, DType::kFloat64);
  ExpectValues(Values(Gradient(Pow(scope_, x, none), x)), {0, 0});
  ExpectValues(Values(Gradient(Pow(scope_, x, Of({0})), x)), {0, 0});
}

TEST_F(SingularPoints, SecondDerivativesOfPow) {
  const Output a = Of({0, 2, 3}), b = Of({0, 0, 3});
  const Output slope = Gradient(Pow(scope_, a, b), a);
  ExpectValues(Values(Gradient(slope, a)), {0, 0, 18}, 1e-12);
  const std::vector<double> mixed = Values(Gradient(slope, b));
  EXPECT_NEAR(mixed[1], 0.5, 1e-12);
  EXPECT_NEAR(mixed[2], 9 + 27 * std::log(3), 1e-9);
}

// The second derivative of x1 x2 x3 by two different factors is the third one. So the sum of the slopes has the sums of
// the other two as its derivatives, whose own derivatives are 2 everywhere.
TEST_F(SingularPoints, SecondDerivativesOfProducts) {
  for (const std::vector<double>& at :
       {std::vector<double>{1, 2, 3}, {0, 2, 3}, {0, 2, 0}, {0, 0, 0}, {-1, 1e200, 4}}) {
    const Output x = Of(at);
    const Output second = Gradient(Gradient(Prod(scope_, x), x), x);
    ExpectValues(Values(second), {at[1] + at[2], at[0] + at[2], at[0] + at[1]}, 1e-12);
    ExpectValues(Values(Gradient(second, x)), {2, 2, 2}, 1e-12);
  }
  const Output x = Of({1, 2, 3});
  const Output y = Add(scope_, Sum(scope_, Mul(scope_, x, Square(scope_, x))), Prod(scope_, x));
  ExpectValues(Values(Gradient(Gradient(y, x), x)), {11, 16, 21}, 1e-12);
}

TEST_F(SingularPoints, SecondDerivativesOfTheLargest) {
  const Output x = Const(scope_, Tensor::Of<double>({1, 5, 3, 4, 0, 2}, {2, 3}));
  const Output top = TopK(scope_, x, 2).values;
  const Output slope = Gradient(Mul(scope_, top, Square(scope_, top)), x);
  ExpectValues(Values(Gradient(slope, x)), {0, 30, 18, 24, 0, 12});
  ExpectValues(Values(Gradient(top, x)), {0, 1, 1, 1, 0, 1});
}

// x / |x| where the norm of all tensors is not 0; the second derivative along (1, 1) is ((y y - x y), (x x - x y)) /
// |x|^3.
TEST_F(SingularPoints, GlobalNorm) {
  const Output x = Of({3, 4}), norm = GlobalNorm(scope_, {x}, DType::kFloat64);
  ExpectValues(Values(Gradient(Add(scope_, Sum(scope_, Square(scope_, x)), norm), x)), {6.6, 8.8}, 1e-12);
  ExpectValues(Values(Gradient(Gradient(norm, x), x)), {4 / 125., -3 / 125.}, 1e-12);
  const Output zero = Of({0, 0});
  ExpectValues(Values(Gradient(GlobalNorm(scope_, {zero}, DType::kFloat64), zero)), {0, 0});
}

// The rest of an update of a variable is not differentiated: such a path is an error, though another one is not.
TEST_F(SingularPoints, NoGradientThroughUpdates) {
  const Variable variable = GetVariable(scope_, "v", {2}, ZerosInitializer(), {DType::kFloat64});
  const Output x = Of({3, 4});
  const Output y = Add(scope_, Square(scope_, x), Assign(scope_, variable, x));
  EXPECT_THAT(Gradients(scope_, {y}, {x}).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("op type: Assign")));
}

TEST_F(SingularPoints, CrossEntropyOfInfiniteLogits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Output x = Cast(scope_, Of({-kInfinity, kInfinity, kInfinity, -kInfinity, kNaN, 1e30, -1e30}), dtype);
    const Output t = Cast(scope_, Of({0, 1, 0, 1, 0, 1, 0}), dtype);
    const Output loss = SigmoidCrossEntropy(scope_, x, t);
    ExpectValues(Values(loss), {0, 0, kInfinity, kInfinity, kNaN, 0, 0});
    ExpectValues(Values(Gradient(loss, x)), {0, 0, 1, -1, kNaN, 0, 0});
  }
}

TEST_F(SingularPoints, LogSumExpOfNothingButMinusInfinity) {
  const Output x = Reshape(scope_, Of({-kInfinity, -kInfinity, 0, -kInfinity}), {2, 2});
  const Output y = LogSumExp(scope_, x, 1);
  ExpectValues(Values(y), {-kInfinity, 0});
  ExpectValues(Values(Gradient(y, x)), {0, 0, 1, 0});
  const Output empty = Const(scope_, Tensor(DType::kFloat64, {2, 0}));
  ExpectValues(Values(LogSumExp(scope_, empty, 1)), {-kInfinity, -kInfinity});
}

TEST_F(SingularPoints, Atan2) {
  const Output y = Of({0, 3, 1e-300, 1e200}), x = Of({0, 4, 2e-300, 1e200});
  const Output angle = Atan2(scope_, y, x);
  ExpectValues(Values(Gradient(angle, y)), {0, 0.16, 4e299, 0.5e-200}, 1e-12);
  ExpectValues(Values(Gradient(angle, x)), {0, -0.12, -2e299, -0.5e-200}, 1e-12);
}

TEST_F(SingularPoints, ProdOfInfinitiesAndNaN) {
  const auto of = [&](const std::vector<double>& values, DType dtype) {
    const Output x = Cast(scope_, Of(values), dtype);
    return Values(Gradient(Prod(scope_, x), x));
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    ExpectValues(of({kInfinity, 2, 3}, dtype), {6, kInfinity, kInfinity});
    ExpectValues(of({-kInfinity, 2, -3}, dtype), {-6, kInfinity, -kInfinity});
    ExpectValues(of({kInfinity, 0, 3}, dtype), {0, kInfinity, kNaN});
    ExpectValues(of({kInfinity, -0.0, -kInfinity}, dtype), {kNaN, -kInfinity, kNaN});
    ExpectValues(of({2, kNaN, 3}, dtype), {kNaN, 6, kNaN});
    ExpectValues(of({0, 2, 3}, dtype), {6, 0, 0});
    ExpectValues(of({0, 2, 0}, dtype), {0, 0, 0});
  }
  ExpectValues(of({1e200, 1e200, 1e-200, 1e-200}, DType::kFloat64), {1e-200, 1e-200, 1e200, 1e200}, 1e-15);
  ExpectValues(of({1e-200, 1e-200, 1e300, 1e100}, DType::kFloat64), {1e200, 1e200, 1e-300, 1e-100}, 1e-14);
  ExpectValues(of({1e-320, 3}, DType::kFloat64), {3, 1e-320});
}

TEST_F(SingularPoints, Norm) {
  const Output x = Reshape(scope_, Of({3, 4, 0, 0, 1e200, -1e200, 1e-310, 0, kInfinity, 1}), {5, 2});
  const Output y = Norm(scope_, x, 1);
  const double root = std::sqrt(2.0), half = std::sqrt(0.5);
  ExpectValues(Values(y), {5, 0, root * 1e200, 1e-310, kInfinity}, 1e-15);
  const std::vector<double> dx = Values(Gradient(y, x));
  ExpectValues({dx.begin(), dx.begin() + 8}, {0.6, 0.8, 0, 0, half, -half, 1, 0}, 1e-12);
  EXPECT_EQ(Norm(scope_, x, 1, /*keep_dims=*/true).shape(), Shape({5, 1}));
  EXPECT_EQ(Norm(scope_, x).shape(), Shape());
  const Output half_x = Cast(scope_, Of({300, 400}), DType::kFloat16);
  EXPECT_THAT(Values(Norm(scope_, half_x)), ElementsAre(500));
  EXPECT_THAT(Values(Norm(scope_, Const(scope_, Tensor(DType::kFloat32, {2, 0})), 1)), ElementsAre(0, 0));
}

TEST_F(SingularPoints, SecondDerivativesOfNorm) {
  const Output x = Of({3, 4});
  const Output slope = Slice(scope_, Gradient(Norm(scope_, x), x), {0}, {1});  // 3 / 5
  ExpectValues(Values(Gradient(slope, x)), {16 / 125.0, -12 / 125.0}, 1e-12);
}

TEST_F(SingularPoints, L2Normalize) {
  const Output x = Reshape(scope_, Of({3, 4, 0, 0, 1e200, -1e200}), {3, 2});
  const Output y = L2Normalize(scope_, x, 1);
  const double half = std::sqrt(0.5);
  ExpectValues(Values(y), {0.6, 0.8, 0, 0, half, -half}, 1e-15);
  const Output first = Slice(scope_, y, {0, 0}, {3, 1});
  const std::vector<double> dx = Values(Gradient(first, x));
  ExpectValues({dx.begin(), dx.begin() + 4}, {0.128, -0.096, 0, 0}, 1e-12);
  ExpectValues(Values(L2Normalize(scope_, Of({1e-14, 0}), {}, 1e-12)), {1e-2, 0}, 1e-12);
  ExpectValues(Values(L2Normalize(scope_, Of({1e-310, 0}), {}, 0)), {1, 0});
  EXPECT_FALSE(L2Normalize(scope_.Named("n"), x, 1, -1).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("epsilon must be in [0, 1], but is -1"));
}

// The way out that array.h gives.
TEST_F(SingularPoints, SelectBeforeTheSingularFunction) {
  const Output x = Of({-1, 0, 4}), zeros = ZerosLike(scope_, x), ones = OnesLike(scope_, x);
  const Output positive = Greater(scope_, x, zeros);
  const Output hidden = Select(scope_, positive, Sqrt(scope_, x), x);
  EXPECT_TRUE(std::isnan(Values(Gradient(hidden, x))[0]));
  const Output safe = Select(scope_, positive, Sqrt(scope_, Select(scope_, positive, x, ones)), x);
  EXPECT_THAT(Values(Gradient(safe, x)), ElementsAre(1, 1, 0.25));
}

}  // namespace
}  // namespace belfry::ops
