#include "ops/convolution/engines_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/winograd/winograd_impl.h"
#include "tests/main/testing.h"
#include "tests/ops/convolution/geometry.h"

namespace belfry::ops {
namespace {

using enum ConvolutionPass;

// The first engine of a pass without bias and activation, or with those of `epilogue`.
absl::string_view Engine(ConvolutionPass pass, const ConvolutionGeometry& shape, const Epilogue& epilogue = {}) {
  const Attrs attrs;
  const KernelSpec spec{"", attrs, {}, {}};
  return FirstEngine(pass, {spec, shape, epilogue})->name;
}

constexpr ConvolutionGeometry kDense =
    Padded({.n = 3, .h = 8, .w = 8, .c = 128, .k = 256, .r = 3, .s = 3}, {1, 1, 1, 1});

// Where oneDNN multiplies image by image, strided and wide convolutions are direct, and others are not.
TEST(ConvolutionEngines, DirectConvolutions) {
  if (onednn::ProductsRepeat(DType::kFloat32)) GTEST_SKIP() << "oneDNN's kernels are as fast here";
  ConvolutionGeometry strided = kDense;
  strided.stride_h = strided.stride_w = 2;
  EXPECT_EQ(Engine(kForward, strided), "direct");
  EXPECT_EQ(Engine(kBackwardWeights, strided), "direct");
  EXPECT_EQ(Engine(kBackwardData, strided), "oneDNN");
  for (const ConvolutionPass pass : {kForward, kBackwardWeights}) {
    EXPECT_EQ(Engine(pass, kDense), winograd::IsBest(kDense, pass) ? "Winograd" : "direct");
  }
  ConvolutionGeometry few = kDense;
  few.h = few.w = 2;
  EXPECT_EQ(Engine(kForward, few), "direct");
  EXPECT_EQ(Engine(kBackwardWeights, few), "direct");
  ConvolutionGeometry grouped = strided;
  grouped.groups = 64;
  EXPECT_EQ(Engine(kForward, grouped), "oneDNN");
  EXPECT_EQ(Engine(kBackwardWeights, grouped), "oneDNN");
  strided.dtype = DType::kBFloat16;
  EXPECT_EQ(Engine(kForward, strided), "oneDNN");
}

TEST(ConvolutionEngines, Products) {
  if (onednn::ProductsRepeat(DType::kFloat32)) GTEST_SKIP() << "oneDNN multiplies whole batches here";
  ConvolutionGeometry shape{.n = 3, .h = 5, .w = 7, .c = 311, .k = 332, .r = 1, .s = 1};
  EXPECT_EQ(Engine(kForward, shape), "product");
  EXPECT_EQ(Engine(kForward, shape, {Activation::kTanh}), "product");
  EXPECT_EQ(Engine(kBackwardData, shape), "product");
  EXPECT_EQ(Engine(kBackwardWeights, shape), "direct");
  shape.c = 3;
  EXPECT_EQ(Engine(kForward, shape), "product");
  EXPECT_EQ(Engine(kBackwardData, shape), "oneDNN");
  EXPECT_EQ(Engine(kBackwardWeights, shape), "oneDNN");
  for (int64_t ConvolutionGeometry::*extent : {&ConvolutionGeometry::r, &ConvolutionGeometry::stride_w}) {
    ConvolutionGeometry other = shape;
    other.*extent += 1;
    EXPECT_EQ(Engine(kForward, other), "oneDNN");
  }
}

TEST(ConvolutionEngines, ActivationsAndTypes) {
  EXPECT_EQ(Engine(kForward, kDense, {Activation::kRelu}), Engine(kForward, kDense));
  EXPECT_EQ(Engine(kForward, kDense, {Activation::kTanh}), "oneDNN");
  ConvolutionGeometry doubles = kDense;
  doubles.dtype = DType::kFloat64;
  for (const ConvolutionPass pass : {kForward, kBackwardData, kBackwardWeights}) {
    EXPECT_EQ(Engine(pass, doubles), "loops");
    EXPECT_STREQ(ConvolutionEngines(pass).back()->name, "loops");
  }
}

// Empty tensors are left to the loops.
TEST(ConvolutionEngines, EmptyTensors) {
  const Attrs attrs;
  const TensorSpec empty[] = {{DType::kFloat32, {0, 8, 8, 128}}};
  const KernelSpec spec{"", attrs, empty, {}};
  for (const ConvolutionPass pass : {kForward, kBackwardData, kBackwardWeights}) {
    EXPECT_STREQ(FirstEngine(pass, {spec, kDense})->name, "loops");
  }
}

}  // namespace
}  // namespace belfry::ops
