// Properties that the cases do not cover: errors, accuracy of long sums, ties, second derivatives.
#include "ops/math.h"
#include "ops/builtin_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/instance.h"

namespace belfry::ops {
namespace {

using harness::Evaluate;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> Values(Output y) {
  const auto values = Evaluate({y}, {});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].ToDoubles() : std::vector<double>();
}

TEST(FloorDiv, IntegerZeroIsAnError) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output a = Const(scope, {1, 2, 3}), b = Const(scope, {1, 0, 2});
  for (const Output& y : {FloorDiv(scope, a, b), FloorMod(scope, a, b)}) {
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

TEST(Sum, OfManyFloatsIsExactToTheLastPlaces) {
  for (const Shape& shape : {Shape{3000000, 1}, Shape{1500000, 2}}) {
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = 0.1f;
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output in = Placeholder(scope, DType::kFloat32, shape);
    const auto sums = Evaluate({Sum(scope, in, 0)}, {{in, x}});
    ASSERT_TRUE(sums.ok()) << sums.status();
    const double exact = static_cast<double>(0.1f) * static_cast<double>(shape[0]);
    for (const double sum : (*sums)[0].ToDoubles()) EXPECT_NEAR(sum / exact, 1, 5e-7);
  }
}

TEST(Max, GradientIsSharedByTies) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Const(scope, {3.0, 1.0, 3.0, 2.0});
  const auto dx = Gradients(scope, {Max(scope, x)}, {x});
  ASSERT_TRUE(dx.ok()) << dx.status();
  EXPECT_THAT(Values((*dx)[0]), ElementsAre(0.5, 0, 0.5, 0));
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
  const auto dx = Gradients(scope, {GetParam()(scope, x)}, {x});
  ASSERT_TRUE(dx.ok()) << dx.status();
  const Tensor value = Tensor::Of<double>({0.3, 0.55, 1.25, 0.8, 1.7});
  const absl::Status status =
      CheckGradients(scope, *dx, {x}, {{x, value}},
                     [](absl::Span<const Output> fetches, const FeedList& feeds) { return Evaluate(fetches, feeds); });
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
  const Evaluator evaluate = [](absl::Span<const Output> fetches, const FeedList& f) { return Evaluate(fetches, f); };
  EXPECT_TRUE(CheckGradients(scope, {Square(scope, x)}, {x}, feeds, evaluate).ok());
  const absl::Status status = CheckGradients(scope, {scope.Add("WrongSquare", {x})}, {x}, feeds, evaluate);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("finite differences give"));
}

}  // namespace
}  // namespace belfry::ops
