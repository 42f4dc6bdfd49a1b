#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(SparseSoftmaxCrossEntropy, NamesTheRowOfABadLabel) {
  for (const int64_t label : {int64_t{-1}, int64_t{3}, int64_t{1} << 32}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output logits = Const(scope, Tensor::Zeros(DType::kFloat32, {4, 3}));
    const Output loss = SparseSoftmaxCrossEntropy(scope, logits, Const<int64_t>(scope, {0, 2, label, 1}));
    const auto value = Value(loss);
    ASSERT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(value.status().message()),
                HasSubstr("the label of row 2 is " + std::to_string(label) + ", but labels must be in [0, 3)"));
  }
}

TEST(SparseSoftmaxCrossEntropy, WantsOneLabelPerExample) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  SparseSoftmaxCrossEntropy(scope, Const(scope, Tensor::Zeros(DType::kFloat32, {4, 3})), Const(scope, {0, 1, 2}));
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("logits [4,3] need labels [4], not [3]"));
}

TEST(SparseSoftmaxCrossEntropy, EqualsTheDenseOneOnOneHotLabels) {
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output logits = Const(scope, {1.0, -2.0, 30.0, 4.0, 1e4, -1e4}, {2, 3});
    const Output sparse =
        SparseSoftmaxCrossEntropy(scope, logits, Const(scope, {1, 0}), {.label_smoothing = smoothing});
    const Output dense = SoftmaxCrossEntropy(scope, logits, Const(scope, {0.0, 1.0, 0.0, 1.0, 0.0, 0.0}, {2, 3}),
                                             {.label_smoothing = smoothing});
    EXPECT_THAT(Value(sparse)->ToDoubles(), Pointwise(DoubleNear(1e-9), Value(dense)->ToDoubles()));
    const auto gradients = Gradients(scope, {sparse, dense}, {logits});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const auto of_sparse = Gradients(scope, {sparse}, {logits}), of_dense = Gradients(scope, {dense}, {logits});
    EXPECT_THAT(Value((*of_sparse)[0])->ToDoubles(), Pointwise(DoubleNear(1e-12), Value((*of_dense)[0])->ToDoubles()));
  }
}

TEST(SoftmaxCrossEntropy, AnImpossibleClassWithoutLabelCostsNothing) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Output loss =
      SoftmaxCrossEntropy(scope, Const(scope, {0.0, 0.0, -kInfinity}, {1, 3}), Const(scope, {0.5, 0.5, 0.0}, {1, 3}));
  EXPECT_NEAR(Value(loss)->scalar<double>(), std::log(2), 1e-12);
}

TEST(SigmoidCrossEntropy, IsStable) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output loss =
      SigmoidCrossEntropy(scope, Const(scope, {1000.0, -1000.0, 1000.0, 0.0}), Const(scope, {1.0, 0.0, 0.0, 1.0}));
  EXPECT_THAT(Value(loss)->ToDoubles(), Pointwise(DoubleNear(1e-9), {0.0, 0.0, 1000.0, std::log(2)}));
}

}  // namespace
}  // namespace belfry::ops
