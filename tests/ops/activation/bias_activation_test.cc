// Convolutions and matrix products with their bias and activation, as one node.
#include <cmath>
#include <limits>

#include "ops/nn.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

using Activation = Output (*)(const Scope&, Output);

class BiasActivationTest : public FusionFixture, public testing::WithParamInterface<DType> {
 protected:
  // The product of x, [..., channels], with the filter, plus a bias and the activation, in the test's dtype.
  Output Fusable(Output x, Output filter, const ops::Conv2DOptions* convolution, Activation activation) {
    const Output a = ops::Cast(root_, x, GetParam()), b = ops::Cast(root_, filter, GetParam());
    const Output product = convolution != nullptr ? ops::Conv2D(root_, a, b, *convolution) : ops::MatMul(root_, a, b);
    const Output bias = ops::Cast(root_, Feed("bias", {filter.shape()[-1]}), GetParam());
    return ops::Cast(root_, activation(root_, ops::BiasAdd(root_, product, bias)), DType::kFloat32);
  }
  // NaN and infinities in the input, and only these, give such results, with and without fusion.
  void ExpectSameNumbers(Output y, absl::string_view op) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f}) {
      values_[0].data<float>()[5] = bad;
      std::vector<Tensor> results;
      for (const bool fuse : {false, true}) {
        step_.reset();
        Open("cpu:1", {.fuse = fuse});
        step_ = Prepare(feeds_, {y});
        EXPECT_EQ(Count(step_->plan(), op), fuse ? 1 : 0);
        ASSERT_TRUE(step_->Run(values_).ok());
        results.push_back(step_->fetched(0).Clone());
      }
      bool any = false;
      for (int64_t i = 0; i < results[0].elements(); ++i) {
        const float plain = results[0].data<float>()[i], fused = results[1].data<float>()[i];
        any |= std::isnan(plain);
        ASSERT_EQ(std::isnan(fused), std::isnan(plain))
            << op << ", element " << i << " with " << bad << ": " << fused << " for " << plain;
      }
      EXPECT_TRUE(any || !std::isnan(bad));
    }
  }

  const std::vector<Activation> activations_ = {
      [](const Scope& s, Output x) { return ops::Relu(s, x); },
      [](const Scope& s, Output x) { return ops::Relu6(s, x); },
      [](const Scope& s, Output x) { return ops::LeakyRelu(s, x, 0.2); },
      [](const Scope& s, Output x) { return ops::Elu(s, x); },
      [](const Scope& s, Output x) { return ops::Tanh(s, x); },
      [](const Scope& s, Output x) { return ops::Sigmoid(s, x); },
      [](const Scope& s, Output x) { return ops::Gelu(s, x); },
      [](const Scope& s, Output x) { return ops::Gelu(s, x, /*approximate=*/true); },
  };
};

TEST_P(BiasActivationTest, NaNStaysInAProduct) {
  const Output x = Feed("x", {9, 7}), filter = Feed("filter", {7, 33});
  for (const Activation activation : activations_)
    ExpectSameNumbers(Fusable(x, filter, nullptr, activation), "FusedMatMul");
}

TEST_P(BiasActivationTest, NaNStaysInAConvolution) {
  const Output x = Feed("x", {2, 7, 6, 3}), small = Feed("small", {3, 3, 3, 16}), point = Feed("point", {1, 1, 3, 5});
  const ops::Conv2DOptions same, strided{.stride_h = 2, .stride_w = 2};
  for (const Activation& activation : activations_) {
    SCOPED_TRACE(&activation - &activations_[0]);
    ExpectSameNumbers(Fusable(x, small, &same, activation), "FusedConv2D");
    ExpectSameNumbers(Fusable(x, small, &strided, activation), "FusedConv2D");
    ExpectSameNumbers(Fusable(x, point, &same, activation), "FusedConv2D");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, BiasActivationTest,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace belfry
