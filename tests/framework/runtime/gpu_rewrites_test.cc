// Rewrites for GPUs: plans with and without them give the same numbers.
#include <string>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/training.h"
#include "tests/framework/runtime/gpu_rewrites_fixture.h"

namespace belfry {
namespace {

class GpuProducts : public GpuRewrites {
 protected:
  Output Dense(Output x, int64_t width) {
    const Output w = Floats({x.shape()[1], width}), b = Floats({width});
    weights_.insert(weights_.end(), {w, b});
    return ops::BiasAdd(scope_, ops::MatMul(scope_, x, w), b);
  }
  // y and the gradients of a network with one hidden layer of this width.
  std::vector<Output> Perceptron(int64_t hidden, bool approximate) {
    const Output x = Floats({13, 5});
    weights_ = {x};
    const Output y = Dense(ops::Gelu(scope_, Dense(x, hidden), approximate), 3);
    std::vector<Output> results =
        *Gradients(scope_, {ops::Sum(scope_, ops::Mul(scope_, y, Floats({13, 3})))}, weights_);
    results.push_back(y);
    return results;
  }

  std::vector<Output> weights_;
};

TEST_F(GpuProducts, GeluIsPartOfItsProducts) {
  const std::vector<std::string> ops = CompareTo(1e-4, Perceptron(16, /*approximate=*/true));
  EXPECT_EQ(Count(ops, "MatMulBiasGelu"), 1);
  EXPECT_EQ(Count(ops, "MatMulGeluGrad"), 1);
  EXPECT_EQ(Count(ops, "Gelu") + Count(ops, "GeluGrad"), 0);
}

// The library computes one form of the GELU, and takes its argument in certain widths.
TEST_F(GpuProducts, OtherGelusAreKernelsOfTheirOwn) {
  for (const auto& [hidden, approximate] : {std::pair(16, false), std::pair(15, true)}) {
    const std::vector<std::string> ops = CompareTo(1e-4, Perceptron(hidden, approximate));
    EXPECT_EQ(Count(ops, "MatMulBiasGelu") + Count(ops, "MatMulGeluGrad"), 0) << hidden;
  }
}

TEST_F(GpuProducts, GelusWithoutAReaderOfTheirArgument) {
  const Output y = ops::Gelu(scope_, Dense(Floats({7, 5}), 16), /*approximate=*/true);
  const std::vector<std::string> ops = CompareTo(1e-4, {y});
  EXPECT_EQ(Count(ops, "FusedMatMul"), 1);
  EXPECT_EQ(Count(ops, "MatMulBiasGelu"), 0);
}

TEST_F(GpuProducts, ProductsOfGradientsSumBiasGradients) {
  const std::vector<std::string> ops = CompareTo(1e-4, Perceptron(15, /*approximate=*/false));
  EXPECT_EQ(Count(ops, "MatMulBiasGrad"), 2);
  EXPECT_EQ(Count(ops, "BiasAddGrad"), 0);
}

// The conversion of the bias gradient comes before the product in the order of the graph.
TEST_F(GpuRewrites, ProductsSumBiasGradientsThatAreConverted) {
  const Output x = Floats({13, 5}), w = Floats({5, 16}), b = Floats({16});
  const Output narrow = ops::Cast(scope_, b, DType::kFloat16);
  const Output y = ops::BiasAdd(
      scope_, ops::MatMul(scope_, ops::Cast(scope_, x, DType::kFloat16), ops::Cast(scope_, w, DType::kFloat16)),
      narrow);
  const Output loss = ops::Sum(scope_, ops::Mul(scope_, ops::Cast(scope_, y, DType::kFloat32), Floats({13, 16})));
  const std::vector<std::string> ops = CompareTo(2e-2, *Gradients(scope_, {loss}, {b, w}));
  EXPECT_EQ(Count(ops, "MatMulBiasGrad"), 1);
  EXPECT_EQ(Count(ops, "BiasAddGrad"), 0);
}

TEST_F(GpuRewrites, LossesGiveTheGradientOfTheirLogits) {
  const Output logits = Floats({70, 11});
  const Output labels = ops::Const(scope_, Tensor::Of<int32_t>(std::vector<int32_t>(70, 3), {70}));
  for (const bool ignores : {false, true}) {
    ops::SparseCrossEntropyOptions options{.label_smoothing = 0.1};
    if (ignores) options.ignore_label = 3;
    const Output each = ops::SparseSoftmaxCrossEntropy(scope_, ops::Tanh(scope_, logits), labels, options);
    std::vector<Output> results = *Gradients(scope_, {ops::Mean(scope_, each)}, {logits});
    results.push_back(each);
    const std::vector<std::string> ops = CompareTo(1e-6, results);
    EXPECT_EQ(Count(ops, "SparseCrossEntropyWithGradient"), 1);
    EXPECT_EQ(Count(ops, "CrossEntropyGrad") + Count(ops, "SparseCrossEntropyGrad"), 0);
  }
}

TEST_F(GpuRewrites, TheGradientOfALossThatDependsOnItComesLater) {
  const Output logits = Floats({70, 11});
  const Output labels = ops::Const(scope_, Tensor::Of<int32_t>(std::vector<int32_t>(70, 3), {70}));
  const Output each = ops::SparseSoftmaxCrossEntropy(scope_, logits, labels);
  const std::vector<Output> results = *Gradients(scope_, {ops::Mean(scope_, ops::Square(scope_, each))}, {logits});
  EXPECT_EQ(Count(CompareTo(1e-6, results), "SparseCrossEntropyWithGradient"), 0);
}

// x + a, its norm, and x + a + b of that.
TEST_F(GpuRewrites, ResidualSumsArePartOfNorms) {
  for (const bool centred : {true, false}) {
    const Output x = Floats({3, 7, 40}), a = Floats({3, 7, 40}), scale = Floats({40}), offset = Floats({40});
    const Output sum = ops::Add(scope_, x, a);
    const Output y = centred ? ops::LayerNorm(scope_, sum, scale, offset) : ops::RmsNorm(scope_, sum, scale);
    const Output last = ops::Add(scope_, sum, ops::Tanh(scope_, y));
    std::vector<Output> results =
        *Gradients(scope_, {ops::Sum(scope_, ops::Mul(scope_, last, Floats({3, 7, 40})))}, {x, scale});
    results.insert(results.end(), {sum, y, last});
    const std::vector<std::string> ops = CompareTo(1e-4, results);
    const std::string name = centred ? "LayerNorm" : "RmsNorm";
    EXPECT_EQ(Count(ops, "Add" + name), 1);
    EXPECT_EQ(Count(ops, name + "AddGrad"), 1);
    EXPECT_EQ(Count(ops, name) + Count(ops, name + "Grad"), 0);
  }
}

// The norm's scale depends on the sum, and the sum has another shape than what is added.
TEST_F(GpuRewrites, SumsThatNormsDoNotTake) {
  const Output x = Floats({7, 40}), sum = ops::Add(scope_, x, Floats({7, 40}));
  const Output scale = ops::Mean(scope_, sum, {0});
  const Output broadcast = ops::Add(scope_, x, Floats({1, 40}));
  const std::vector<std::string> ops =
      CompareTo(1e-4, {ops::RmsNorm(scope_, sum, scale), ops::RmsNorm(scope_, broadcast, Floats({40}))});
  EXPECT_EQ(Count(ops, "RmsNorm"), 2);
}

TEST_F(GpuRewrites, NormsAreThoseOfTheGradientsBeforeTheirConversion) {
  std::vector<Output> gradients;
  for (int i = 0; i < 5; ++i) {
    const Output narrow = ops::Mul(scope_, Halves({30 + i, 7}), Halves({30 + i, 7}));
    gradients.push_back(ops::Reshape(scope_, ops::Cast(scope_, narrow, DType::kFloat32), {-1}));
  }
  EXPECT_EQ(Count(CompareTo(0, {ops::GlobalNorm(scope_, gradients)}), "Cast"), 0);
  // One that is float32 anyway.
  gradients.push_back(ops::Neg(scope_, Floats({100})));
  const Output norm = ops::GlobalNorm(scope_, gradients, DType::kFloat64);
  const std::vector<std::string> ops = CompareTo(1e-12, {norm});
  EXPECT_EQ(Count(ops, "GlobalNorm"), 3);
  EXPECT_EQ(Count(ops, "Cast"), 0);
}

}  // namespace
}  // namespace belfry
