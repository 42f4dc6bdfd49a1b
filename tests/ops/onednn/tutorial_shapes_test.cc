// The layers of the CIFAR-10 tutorial network must never fall back to the library's reference loops.
#include <iostream>

#include "framework/base/parallel.h"
#include "ops/onednn/convolution.h"
#include "ops/onednn/matmul.h"
#include "ops/onednn/pooling.h"
#include "tests/main/testing.h"
#include "tests/ops/convolution/geometry.h"
#include "tests/ops/onednn/harness.h"

namespace belfry::ops::onednn {
namespace {

void ExpectFast(const char* what, const absl::StatusOr<Primitive>& primitive) {
  ASSERT_TRUE(primitive.ok()) << what << ": " << primitive.status();
  EXPECT_FALSE(primitive->is_reference()) << what;
  std::cout << what << ": " << primitive->implementation() << ", " << primitive->reorders() << " reorders, workspace "
            << primitive->workspace_bytes() << " bytes, saved " << primitive->saved_bytes() << "\n";
}

class TutorialNetwork : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(TutorialNetwork, HasFastKernels) {
  const auto [dtype, thread_count] = GetParam();
  if (!IsComputed(dtype)) GTEST_SKIP() << kNotComputed;
  const ScopedParallelThreads threads(thread_count);
  const ConvolutionGeometry conv1 =
      Padded({.n = 128, .h = 24, .w = 24, .c = 3, .k = 64, .r = 5, .s = 5, .dtype = dtype}, {2, 2, 2, 2});
  ConvolutionGeometry conv2 = conv1;
  conv2.h = conv2.w = 12, conv2.c = 64;
  const Conv2DForwardOptions bias_and_relu{.bias = true, .post_ops = {Activation::kLeakyRelu, 0.1}};
  ExpectFast("conv1 forward", Conv2DForward(conv1, bias_and_relu));
  ExpectFast("conv1 backward data", Conv2DBackwardData(conv1));
  ExpectFast("conv1 backward weights", Conv2DBackwardWeights(conv1, {.bias = true}));
  ExpectFast("conv2 forward", Conv2DForward(conv2, bias_and_relu));
  ExpectFast("conv2 backward data", Conv2DBackwardData(conv2));
  ExpectFast("conv2 backward weights", Conv2DBackwardWeights(conv2, {.bias = true}));
  for (const int64_t side : {24, 12}) {
    const Pool2DShape pool{PoolKind::kMax, 128, side, side, 64, 3, 3, 2, 2, 0, 1, 0, 1, dtype};
    ExpectFast("pool forward", Pool2DForward(pool, true));
    ExpectFast("pool backward", Pool2DBackward(pool));
  }
  for (const auto& [k, n] : {std::pair<int64_t, int64_t>(2304, 384), {384, 192}, {192, 10}}) {
    ExpectFast("dense forward", MatMul({{}, {}, 128, k, n, false, false, dtype, dtype},
                                       {.bias = true, .post_ops = {Activation::kLeakyRelu, 0.1}}));
    ExpectFast("dense backward data", MatMul({{}, {}, 128, n, k, false, true, dtype, dtype}));
    ExpectFast("dense backward weights", MatMul({{}, {}, k, 128, n, true, false, dtype, DType::kFloat32}));
  }
}

INSTANTIATE_TEST_SUITE_P(TypesAndThreads, TutorialNetwork,
                         ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16),
                                            ::testing::Values(1, 2)));

}  // namespace
}  // namespace belfry::ops::onednn
