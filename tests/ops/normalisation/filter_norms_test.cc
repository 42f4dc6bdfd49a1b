// Batch norm with fixed statistics, folded into the weights before it.
#include "ops/nn.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

class FoldNorms : public FusionFixture {
 protected:
  FoldNorms() {
    x_ = Feed("x", {3, 7, 5, 6});
    filter_ = Feed("filter", {3, 3, 6, 11});
    scale_ = Feed("scale", {11});
    offset_ = Feed("offset", {11});
    mean_ = Feed("mean", {11});
    variance_ = ops::Square(root_, Feed("deviation", {11}));
  }
  Output Norm(Output x) { return ops::BatchNormInference(root_, x, scale_, offset_, mean_, variance_, 0.1); }
  const Plan& Compare(const std::vector<Output>& fetches) { return FusionFixture::Compare(fetches, 1e-3f); }

  Output x_, filter_, scale_, offset_, mean_, variance_;
};

TEST_F(FoldNorms, IntoAConvolutionAndThenAnActivation) {
  for (const bool relu : {false, true}) {
    Output y = Norm(ops::Conv2D(root_, x_, filter_, {.stride_w = 2, .padding = ops::Padding::Valid()}));
    if (relu) y = ops::Relu(root_, y);
    const Plan& plan = Compare({y});
    EXPECT_EQ(Count(plan, "FusedConv2D"), 1);
    EXPECT_EQ(Count(plan, "BatchNormFilter"), 1);
    for (const char* op : {"Conv2D", "BatchNormInference", "Relu"}) EXPECT_EQ(Count(plan, op), 0) << op;
  }
}

TEST_F(FoldNorms, IntoGroups) {
  const Output filter = Feed("grouped", {1, 3, 6, 12});
  const Output scale = Feed("scale12", {12}), offset = Feed("offset12", {12}), mean = Feed("mean12", {12});
  const Output images = Feed("wide", {2, 4, 5, 12});
  const Output y = ops::BatchNormInference(root_, ops::Conv2D(root_, images, filter, {.groups = 2}), scale, offset,
                                           mean, ops::Square(root_, mean), 0.1);
  EXPECT_EQ(Count(Compare({y}), "FusedConv2D"), 1);
}

TEST_F(FoldNorms, IntoAProductOfMatrices) {
  const Output rows = Feed("rows", {13, 9}), weights = Feed("weights", {9, 11}), turned = Feed("turned", {11, 9});
  const Plan& plan = Compare({Norm(ops::MatMul(root_, rows, weights))});
  EXPECT_EQ(Count(plan, "FusedMatMul"), 1);
  EXPECT_EQ(Count(plan, "BatchNormInference"), 0);
  EXPECT_EQ(Count(Compare({Norm(ops::MatMul(root_, rows, turned, {.transpose_b = true}))}), "BatchNormInference"), 1);
}

TEST_F(FoldNorms, NotWhereOthersSeeWhatLiesBetween) {
  const Output product = ops::Conv2D(root_, x_, filter_);
  EXPECT_EQ(Count(Compare({Norm(product), product}), "BatchNormInference"), 1);
}

TEST_F(FoldNorms, NotIntoWeightsOfSixteenBits) {
  const Output product =
      ops::Conv2D(root_, ops::Cast(root_, x_, DType::kBFloat16), ops::Cast(root_, filter_, DType::kBFloat16));
  const Output y = ops::Cast(root_, Norm(product), DType::kFloat32);
  EXPECT_EQ(Count(FusionFixture::Compare({y}, 0.1f), "BatchNormInference"), 1);
}

TEST_F(FoldNorms, NotWhereTheFilterIsUpdatedFirst) {
  const Variable filter = GetVariable(root_, "filter", {3, 3, 6, 11}, ConstantInitializer(0.5));
  const Output product = ops::Conv2D(root_, x_, filter.value());
  const Output updated = ops::AssignAdd(root_, filter, filter_);
  const Output mean =
      ops::Add(root_, mean_, ops::Reshape(root_, ops::Slice(root_, updated, {0, 0, 0, 0}, {1, 1, 1, 11}), {11}));
  const Output y = ops::BatchNormInference(root_, product, scale_, offset_, mean, variance_, 0.1);
  EXPECT_EQ(Count(Compare({y}), "BatchNormInference"), 1);
}

}  // namespace
}  // namespace belfry
