// Properties that the cases do not cover: errors, accuracy of long sums, ties, second derivatives.
#include "ops/math.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <vector>

#include "framework/graph/gradients.h"
#include "framework/runtime/check_gradients.h"
#include "ops/array.h"
#include "tests/ops/harness/instance.h"
#include "tests/ops/harness/special_values.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using harness::Evaluate;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FloorDiv, IntegerZeroIsAnError) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output a = Const(scope, {1, 2, 3}), b = Const(scope, {1, 0, 2});
  const std::vector<Output> results = {FloorDiv(scope, a, b), FloorMod(scope, a, b)};
  for (const Output& y : results) {
    EXPECT_THAT(Evaluate({y}, {}).status().ToString(), HasSubstr("divisor 1 is 0"));
  }
}

TEST(FloorDiv, SmallestIntegerByMinusOneWraps) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output a = Const(scope, {INT32_MIN}), b = Const(scope, {-1});
  EXPECT_THAT(Values(FloorDiv(scope, a, b)), ElementsAre(INT32_MIN));
  EXPECT_THAT(Values(FloorMod(scope, a, b)), ElementsAre(0));
}

// Compares with what Python gives, NaN included.
void ExpectValues(const std::vector<double>& found, const std::vector<double>& expected, double tolerance = 0) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isfinite(expected[i])) {
      EXPECT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i])) << i;
    } else {
      EXPECT_THAT(found[i], testing::NanSensitiveDoubleEq(expected[i])) << i;
    }
  }
}

// 1 // 0.1, -496 // -3.1, -5 // inf, inf // 2 and others, as Python has them.
TEST(FloorDiv, OfFloatsIsPythons) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const auto of = [&](const std::vector<double>& x) {
    return Const(scope, Tensor::Of<double>(x, {static_cast<int64_t>(x.size())}));
  };
  const Output a = of({1, -496, -5, kInfinity, 7, -7, 7, -7, 1, -1, 0, -0.0, 5, 6, -6});
  const Output b = of({0.1, -3.1, kInfinity, 2, 2, 2, -2, -2, 0, 0, 3, 3, -kInfinity, 3, 3});
  ExpectValues(Values(FloorDiv(scope, a, b)), {9, 159, -1, kNaN, 3, -4, -4, 3, kInfinity, -kInfinity, 0, 0, -1, 2, -2});
  ExpectValues(
      Values(FloorMod(scope, a, b)),
      {0.09999999999999995, -3.099999999999986, kInfinity, kNaN, 1, 1, -1, -1, kNaN, kNaN, 0, 0, -kInfinity, 0, 0},
      1e-15);
  EXPECT_TRUE(std::signbit(Values(FloorDiv(scope, of({-0.0}), of({3})))[0]));
  EXPECT_TRUE(std::signbit(Values(FloorMod(scope, of({6}), of({-3})))[0]));
}

// q b + r is a to the rounding of the product.
TEST(FloorDiv, AndFloorModGoTogether) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  constexpr int64_t kPairs = 20000;
  Tensor a(DType::kFloat32, {kPairs}), b(DType::kFloat32, {kPairs});
  uint32_t state = 1;
  const auto random = [&] { return static_cast<float>(static_cast<int32_t>(state = state * 1664525 + 1013904223)); };
  for (int64_t i = 0; i < kPairs; ++i) {
    a.data<float>()[i] = random() * 0x1p-21f;
    b.data<float>()[i] = random() * 0x1p-28f + 0x1p-30f;
  }
  ASSERT_OK_AND_ASSIGN(const auto found, harness::Evaluate({FloorDiv(scope, Const(scope, a), Const(scope, b)),
                                                            FloorMod(scope, Const(scope, a), Const(scope, b))},
                                                           {}));
  for (int64_t i = 0; i < kPairs; ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    const double q = found[0].data<float>()[i], r = found[1].data<float>()[i];
    if (std::abs(q) >= 0x1p24) continue;  // no float holds every such quotient
    EXPECT_NEAR(q * y + r, x, 0x1p-23 * std::abs(y)) << x << " // " << y << " = " << q;
  }
}

TEST(Sum, OfManyFloatsIsExactToTheLastPlaces) {
  for (const Shape& shape : {Shape{3000000, 1}, Shape{1500000, 2}}) {
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = 0.1f;
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output in = Placeholder(scope, DType::kFloat32, shape);
    ASSERT_OK_AND_ASSIGN(const auto sums, Evaluate({Sum(scope, in, 0)}, {{in, x}}));
    const double exact = static_cast<double>(0.1f) * static_cast<double>(shape[0]);
    for (const double sum : sums[0].ToDoubles()) EXPECT_NEAR(sum / exact, 1, 5e-7);
  }
}

TEST(Max, GradientIsSharedByTies) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Const(scope, {3.0, 1.0, 3.0, 2.0});
  ASSERT_OK_AND_ASSIGN(const auto dx, Gradients(scope, {Max(scope, x)}, {x}));
  EXPECT_THAT(Values(dx[0]), ElementsAre(0.5, 0, 0.5, 0));
}

TEST(Reductions, RefuseBadAxes) {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {-3}, {0, -2}}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    EXPECT_FALSE(Sum(scope, Const(scope, {1.f, 2.f}, {1, 2}), axes).valid());
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(graph.status().ToString(), HasSubstr("math_test.cc"));
  }
}

TEST(MatMul, NamesExtentsThatDoNotFit) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output a = Placeholder(scope, DType::kFloat32, {2, 3}), b = Placeholder(scope, DType::kFloat32, {4, 5});
  EXPECT_FALSE(MatMul(scope, a, b, {.transpose_b = true}).valid());
  EXPECT_THAT(graph.status().ToString(), HasSubstr("[2,3] and [4,5] (transposed) differ: 3 and 5"));
}

TEST(ClipByValue, RefusesAnEmptyInterval) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_FALSE(ClipByValue(scope, Const(scope, 1.f), 1, 0).valid());
  EXPECT_THAT(graph.status().ToString(), HasSubstr("low 1 is above high 0"));
}

using Function = Output (*)(OpScope, Output);
class SecondDerivative : public testing::TestWithParam<Function> {};

// The gradient of the gradient, against finite differences of the gradient.
TEST_P(SecondDerivative, IsThatOfFiniteDifferences) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Placeholder(scope, DType::kFloat64, {5});
  ASSERT_OK_AND_ASSIGN(const auto dx, Gradients(scope, {GetParam()(scope, x)}, {x}));
  const Tensor value = Tensor::Of<double>({0.3, 0.55, 1.25, 0.8, 1.7});
  const absl::Status status = CheckGradients(scope, dx, {x}, {{x, value}});
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Ops, SecondDerivative,
                         testing::Values(&Tanh, &Sigmoid, &Exp, &Log, &Log1p, &Sqrt, &Rsqrt, &Reciprocal, &Sin, &Tan,
                                         &Atan, &Cosh, &Erf, &Square));

TEST(CheckGradients, FailsOnAWrongGradient) {
  OpRegistry registry = BuiltinOps();
  OpDef wrong = *registry.Find("Square");
  wrong.name = "WrongSquare";
  wrong.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
    return std::vector<Output>{Mul(scope, dy[0], node.input(0))};
  };
  registry.Add(wrong);
  Graph graph(registry);
  const Scope scope(graph);
  const Output x = Placeholder(scope, DType::kFloat64, {3});
  const FeedList feeds = {{x, Tensor::Of<double>({1, 2, 3})}};
  EXPECT_TRUE(CheckGradients(scope, {Square(scope, x)}, {x}, feeds).ok());
  const absl::Status status = CheckGradients(scope, {scope.Add("WrongSquare", {x})}, {x}, feeds);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("finite differences give"));
}

}  // namespace
}  // namespace belfry::ops
