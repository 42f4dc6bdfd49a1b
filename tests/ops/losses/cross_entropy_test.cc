#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/harness/special_values.h"
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
    ASSERT_THAT(Value(loss).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("the label of row 2 is " + std::to_string(label) +
                                                         ", but labels must be in [0, 3)")));
  }
}

TEST(SparseSoftmaxCrossEntropy, WantsOneLabelPerExample) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  SparseSoftmaxCrossEntropy(scope, Const(scope, Tensor::Zeros(DType::kFloat32, {4, 3})), Const(scope, {0, 1, 2}));
  EXPECT_THAT(graph.status().message(), HasSubstr("logits [4,3] need labels [4], not [3]"));
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
    ASSERT_EQ(Gradients(scope, {sparse, dense}, {logits}).status(), absl::OkStatus());
    const auto of_sparse = Gradients(scope, {sparse}, {logits}), of_dense = Gradients(scope, {dense}, {logits});
    EXPECT_THAT(Value((*of_sparse)[0])->ToDoubles(), Pointwise(DoubleNear(1e-12), Value((*of_dense)[0])->ToDoubles()));
  }
}

struct IgnoreCase {
  DType dtype, label_dtype;
  int64_t classes, ignore_label;
  double smoothing;
  double tolerance;  // of losses and gradients, absolute
};

// Rows 0, 3, 4 and 6 of 7 are ignored, and three of these are not finite. Compares with sums in double.
void ExpectIgnores(const IgnoreCase& c) {
  const int64_t n = c.classes;
  const double first[] = {kNaN, 1, -2, kInfinity, -kInfinity, 3, 0.5}, factors[] = {kInfinity, 2, -1, 1, kNaN, 0.5, 3};
  const std::vector<int64_t> labels = {c.ignore_label, 1, 2, c.ignore_label, c.ignore_label, 1, c.ignore_label};
  Tensor values(DType::kFloat32, {7, n});
  for (int64_t i = 0; i < values.elements(); ++i) {
    values.data<float>()[i] = static_cast<float>(i % n == 0 ? first[i / n] : 2 * std::sin(static_cast<double>(i)));
  }
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output logits = Cast(scope, Const(scope, values), c.dtype);
  const Output loss = SparseSoftmaxCrossEntropy(
      scope, logits, Cast(scope, Const(scope, Tensor::Of<int64_t>(labels, {7})), c.label_dtype),
      {.label_smoothing = c.smoothing, .ignore_label = c.ignore_label});
  const Output factor = Cast(scope, Const(scope, Tensor::Of<double>(factors, {7})), loss.dtype());
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(scope, {Mul(scope, loss, factor)}, {logits}));
  const std::vector<double> losses = Value(loss)->ToDoubles(), gradient = Value(gradients[0])->ToDoubles(),
                            x = Value(logits)->ToDoubles();
  for (size_t row = 0; row < 7; ++row) {
    SCOPED_TRACE(row);
    const size_t begin = row * static_cast<size_t>(n), end = begin + static_cast<size_t>(n);
    if (labels[row] == c.ignore_label) {
      EXPECT_EQ(losses[row], 0);
      for (size_t i = begin; i < end; ++i) EXPECT_EQ(gradient[i], 0);
      continue;
    }
    double sum = 0, expected = 0;
    for (size_t i = begin; i < end; ++i) sum += std::exp(x[i]);
    for (size_t i = begin; i < end; ++i) {
      const bool is_label = static_cast<int64_t>(i - begin) == labels[row];
      const double target = (is_label ? 1 - c.smoothing : 0) + c.smoothing / static_cast<double>(n);
      expected -= target * (x[i] - std::log(sum));
      EXPECT_NEAR(gradient[i], factors[row] * (std::exp(x[i]) / sum - target), c.tolerance);
    }
    EXPECT_NEAR(losses[row], expected, c.tolerance * std::max(1.0, expected));
  }
}

TEST(SparseSoftmaxCrossEntropy, IgnoredExamplesHaveNoLossAndNoGradient) {
  const std::pair<DType, double> dtypes[] = {
      {DType::kFloat32, 1e-5}, {DType::kFloat64, 1e-12}, {DType::kFloat16, 4e-3}, {DType::kBFloat16, 3e-2}};
  for (const auto& [dtype, tolerance] : dtypes) {
    for (const DType label_dtype : {DType::kInt32, DType::kInt64}) {
      for (const int64_t classes : {3, 17, 2051}) {
        for (const int64_t ignore_label : {int64_t{-100}, int64_t{0}, classes, int64_t{1} << 30}) {
          for (const double smoothing : {0.0, 0.1}) {
            SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << DTypeName(label_dtype) << " " << classes
                                            << " classes without " << ignore_label << ", " << smoothing);
            ExpectIgnores({dtype, label_dtype, classes, ignore_label, smoothing, tolerance});
          }
        }
      }
    }
  }
}

TEST(SparseSoftmaxCrossEntropy, OtherLabelsOutOfRangeStayErrors) {
  for (const int64_t label : {-1, 3}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output logits = Const(scope, Tensor::Zeros(DType::kFloat32, {4, 3}));
    const Output loss =
        SparseSoftmaxCrossEntropy(scope, logits, Const<int64_t>(scope, {0, -100, label, 1}), {.ignore_label = -100});
    ASSERT_THAT(Value(loss).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("the label of row 2 is " + std::to_string(label) +
                                                         ", but labels must be in [0, 3)")));
  }
}

// int32 labels are not compared modulo 2^32.
TEST(SparseSoftmaxCrossEntropy, ALabelBeyondTheDtypeIgnoresNothing) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output loss = SparseSoftmaxCrossEntropy(scope, Const(scope, {1.0, 1.0}, {1, 2}), Const(scope, {1}),
                                                {.ignore_label = (int64_t{1} << 32) + 1});
  EXPECT_NEAR(Value(loss)->ToDoubles()[0], std::log(2), 1e-12);
}

TEST(SparseSoftmaxCrossEntropy, IgnoresOneLabelAtMost) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  scope.Add("SparseSoftmaxCrossEntropyWithLogits", {Const(scope, {1.0, 1.0}, {1, 2}), Const(scope, {1})},
            {{"U", DType::kFloat64}, {"ignore_label", std::vector<int64_t>{0, 1}}});
  EXPECT_THAT(graph.status().message(), HasSubstr("ignore_label must be one label or none"));
}

// One loss in 16 bits would lose what a mean over many examples shows.
TEST(SparseSoftmaxCrossEntropy, LossesOfNarrowLogitsAreWide) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output logits = Cast(scope, Const(scope, {1.0f, 2.0f, 0.5f, -1.0f}, {1, 4}), dtype);
    const Output loss = SparseSoftmaxCrossEntropy(scope, logits, Const(scope, {2}));
    EXPECT_EQ(loss.dtype(), DType::kFloat32);
    const double sum = std::exp(1) + std::exp(2) + std::exp(0.5) + std::exp(-1);
    EXPECT_NEAR(Value(loss)->ToDoubles()[0], std::log(sum) - 0.5, 1e-6);
    ASSERT_OK_AND_ASSIGN(const auto gradient, Gradients(scope, {loss}, {logits}));
    EXPECT_EQ(gradient[0].dtype(), dtype);
  }
}

TEST(SparseSoftmaxCrossEntropy, NamesTheTypeOfLosses) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  scope.Add("SparseSoftmaxCrossEntropyWithLogits", {Const(scope, {1.0f, 1.0f}, {1, 2}), Const(scope, {1})},
            {{"U", DType::kFloat64}});
  EXPECT_THAT(graph.status().message(), HasSubstr("losses of float32 logits are float32, not float64"));
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
