// The gradient of local response normalisation over a ReLU, with the ReLU's mask.
#include "ops/nn.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

class MaskLrnGradients : public FusionFixture {
 protected:
  const Plan& Compare(const std::vector<Output>& fetches) { return FusionFixture::Compare(fetches, 2e-5f); }
  Output Normalised(Output x) {
    return ops::LocalResponseNormalization(root_, x, {.depth_radius = 2, .bias = 1, .alpha = 0.1, .beta = 0.75});
  }
};

TEST_F(MaskLrnGradients, OverAReLU) {
  const Output x = Feed("x", {3, 5, 4, 17});
  const Plan& plan = Compare(GradientsOf(Normalised(ops::Relu(root_, x)), {x}));
  EXPECT_EQ(Count(plan, "LRNGrad"), 1);
  EXPECT_EQ(Count(plan, "ReluGrad"), 0);
}

TEST_F(MaskLrnGradients, UnderAPoolWhichIsMaskedFirst) {
  const Output x = Feed("x", {3, 6, 4, 17});
  const Output pooled =
      ops::MaxPool(root_, ops::Relu(root_, x), {.height = 2, .width = 2, .stride_h = 2, .stride_w = 2});
  const Plan& plan = Compare(GradientsOf(Normalised(pooled), {x}));
  EXPECT_EQ(Count(plan, "ReluGrad"), 0);
}

TEST_F(MaskLrnGradients, NotOfAnotherReLU) {
  const Output x = Feed("x", {3, 5, 4, 17}), y = ops::Relu(root_, x);
  const Output other = ops::Relu(root_, Feed("other", {3, 5, 4, 17}));
  const std::vector<Output> gradients = GradientsOf(Normalised(y), {y});
  EXPECT_EQ(Count(Compare({root_.Add("ReluGrad", {gradients[0], other})}), "ReluGrad"), 1);
}

TEST_F(MaskLrnGradients, NotWhereSomebodyElseReadsTheGradient) {
  const Output x = Feed("x", {3, 5, 4, 17}), y = ops::Relu(root_, x);
  EXPECT_EQ(Count(Compare(GradientsOf(Normalised(y), {x, y})), "ReluGrad"), 1);
}

TEST_F(MaskLrnGradients, NotWhereTheProgramHasItsOwnKernel) {
  registry_.AddKernels("LRNGrad", {*registry_.Find("LRNGrad")->FindKernel("CPU", DType::kFloat32)});
  const Output x = Feed("x", {3, 5, 4, 17});
  EXPECT_EQ(Count(Compare(GradientsOf(Normalised(ops::Relu(root_, x)), {x})), "ReluGrad"), 1);
}

}  // namespace
}  // namespace belfry
