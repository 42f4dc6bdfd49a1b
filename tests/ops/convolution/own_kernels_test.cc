// Kernels that a program puts in the place of Belfry's: rewrites must not take their ops into fused ones.
#include <string>
#include <utility>
#include <vector>

#include "ops/nn.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

class OwnKernels : public FusionFixture, public testing::WithParamInterface<const char*> {
 protected:
  OwnKernels() {
    const Output x = Feed("x", {2, 6, 5, 3});
    const Output first = Feed("first", {3, 3, 3, 4}), bias = Feed("bias", {4}), second = Feed("second", {3, 3, 4, 4});
    const Output h = ops::Relu(root_, ops::BiasAdd(root_, ops::Conv2D(root_, x, first, {}), bias));
    const Output norm =
        ops::BatchNorm(root_, ops::Conv2D(root_, h, second, {}), Feed("scale", {4}), Feed("offset", {4})).y;
    const Output flat = ops::Reshape(root_, ops::Relu(root_, norm), {2, 120});
    const Output weights = Feed("dense", {120, 7});
    const Output y =
        ops::Sigmoid(root_, ops::BiasAdd(root_, ops::MatMul(root_, flat, weights), Feed("dense_bias", {7})));
    fetches_ = GradientsOf(y, {first, bias, second, weights});
    fetches_.push_back(y);
  }

  // Puts a kernel that counts its runs in the place of the op's own, and runs that.
  void Replace(const std::string& op) {
    KernelDef own = *registry_.Find(op)->FindKernel("CPU", DType::kFloat32);
    own.make = [this, make = own.make](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
      absl::StatusOr<Kernel> kernel = make(spec);
      if (kernel.ok()) {
        kernel->run = [this, run = std::move(kernel->run)](const KernelContext& context) {
          ++runs_;
          return run(context);
        };
      }
      return kernel;
    };
    registry_.AddKernels(op, {own});
  }

  std::vector<Output> fetches_;
  int runs_ = 0;
};

TEST_F(OwnKernels, FusionTakesInAllWithoutThem) {
  const Plan& plan = Compare(fetches_, 1e-4f);
  EXPECT_EQ(Count(plan, "FusedConv2D"), 1);
  EXPECT_EQ(Count(plan, "FusedMatMul"), 1);
  EXPECT_EQ(Count(plan, "Conv2DBackpropFilterBias"), 1);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 1);
  EXPECT_EQ(Count(plan, "BatchNormRelu"), 1);
  EXPECT_EQ(Count(plan, "BatchNormReluGrad"), 1);
}

TEST_P(OwnKernels, AreUsedWithFusion) {
  int nodes = 0;
  for (const bool replaced : {false, true}) {
    if (replaced) Replace(GetParam());
    Open("cpu:1", {.fuse = true});
    step_ = Prepare(feeds_, fetches_);
    nodes = Count(step_->plan(), GetParam()) - nodes;
    ASSERT_TRUE(step_->Run(values_).ok());
    step_.reset();
  }
  EXPECT_GT(nodes, 0) << "not in a fused op before";
  EXPECT_GE(runs_, nodes);
}

TEST_P(OwnKernels, GiveTheSameResults) {
  Replace(GetParam());
  Compare(fetches_, 1e-4f);
}

// A program that replaces the fused kernel as well takes on what it stands for.
TEST_F(OwnKernels, AreFusedByAnOwnFusedKernel) {
  for (const char* op : {"Conv2D", "FusedConv2D"}) Replace(op);
  Open("cpu:1", {.fuse = true});
  step_ = Prepare(feeds_, fetches_);
  EXPECT_EQ(Count(step_->plan(), "FusedConv2D"), 1);
}

TEST_F(OwnKernels, OfAnotherDTypeDoNotMatter) {
  registry_.AddKernels("Conv2D", {*registry_.Find("Conv2D")->FindKernel("CPU", DType::kFloat64)});
  EXPECT_EQ(Count(Compare(fetches_, 1e-4f), "FusedConv2D"), 1);
}

INSTANTIATE_TEST_SUITE_P(Ops, OwnKernels,
                         testing::Values("Conv2D", "MatMul", "BiasAdd", "Relu", "Sigmoid", "BatchNorm", "BiasAddGrad",
                                         "Conv2DBackpropFilter", "Conv2DBackpropInput", "ReluGrad", "BatchNormGrad"));

}  // namespace
}  // namespace belfry
