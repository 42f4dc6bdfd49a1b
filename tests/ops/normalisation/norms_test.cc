// Batch norm fused with the ops after it.
#include <cmath>
#include <string>
#include <vector>

#include "framework/base/half.h"
#include "ops/activation/activate.h"
#include "ops/nn.h"
#include "tests/framework/compiler/fusion_fixture.h"

namespace belfry {
namespace {

class FuseNorms : public FusionFixture {
 protected:
  FuseNorms() {
    x_ = Feed("x", {12, 3, 2, 6});
    shortcut_ = Feed("shortcut", {12, 3, 2, 6});
    scale_ = Feed("scale", {6});
    offset_ = Feed("offset", {6});
    norm_ = ops::BatchNorm(root_, x_, scale_, offset_);
  }
  const Plan& Compare(const std::vector<Output>& fetches) { return FusionFixture::Compare(fetches, 2e-5f); }
  // Expects that y, norm_ under `activation`, is one node, and its gradient another.
  void ExpectFused(const std::string& activation, const Output& y) {
    std::vector<Output> fetches = GradientsOf(y, {x_, scale_, offset_});
    fetches.insert(fetches.end(), {y, norm_.mean, norm_.variance});
    const Plan& plan = Compare(fetches);
    EXPECT_EQ(Count(plan, "BatchNorm" + activation), 1);
    EXPECT_EQ(Count(plan, "BatchNorm" + activation + "Grad"), 1);
    for (const std::string& op :
         {std::string("BatchNorm"), std::string("BatchNormGrad"), activation, activation + "Grad"}) {
      EXPECT_EQ(Count(plan, op), 0) << op;
    }
  }

  Output x_, shortcut_, scale_, offset_;
  ops::BatchNormOutputs norm_;
};

TEST_F(FuseNorms, AReluAndTheGradientUnderIt) { ExpectFused("Relu", ops::Relu(root_, norm_.y)); }

TEST_F(FuseNorms, ARelu6AndTheGradientUnderIt) {
  // Some channels pass 6, and some stay below it.
  norm_ = ops::BatchNorm(root_, x_, ops::Scale(root_, scale_, 8), offset_);
  ExpectFused("Relu6", ops::Relu6(root_, norm_.y));
}

TEST_F(FuseNorms, AnAdditionOnEitherSide) {
  for (const bool first : {true, false}) {
    const Output sum = first ? ops::Add(root_, norm_.y, shortcut_) : ops::Add(root_, shortcut_, norm_.y);
    const Output y = ops::Relu(root_, sum);
    std::vector<Output> fetches = GradientsOf(y, {x_, scale_, offset_, shortcut_});
    fetches.insert(fetches.end(), {y, norm_.mean});
    const Plan& plan = Compare(fetches);
    EXPECT_EQ(Count(plan, "BatchNormAddRelu"), 1);
    for (const char* op : {"BatchNorm", "Relu", "Add", "BatchNormReluGrad"}) EXPECT_EQ(Count(plan, op), 0) << op;
  }
}

TEST_F(FuseNorms, TwoBranchesOfABlock) {
  const auto other = ops::BatchNorm(root_, shortcut_, scale_, offset_);
  const Output y = ops::Relu(root_, ops::Add(root_, norm_.y, other.y));
  std::vector<Output> fetches = GradientsOf(y, {x_, shortcut_, scale_});
  fetches.insert(fetches.end(), {y, norm_.mean, other.mean});
  const Plan& plan = Compare(fetches);
  EXPECT_EQ(Count(plan, "BatchNormAddRelu"), 1);
  EXPECT_EQ(Count(plan, "BatchNorm"), 1);
}

TEST_F(FuseNorms, NotWhereOthersSeeWhatLiesBetween) {
  const Output y = ops::Relu(root_, norm_.y);
  EXPECT_EQ(Count(Compare({y, norm_.y}), "BatchNorm"), 1);
  const Output sum = ops::Add(root_, norm_.y, shortcut_);
  EXPECT_EQ(Count(Compare({ops::Relu(root_, sum), sum}), "BatchNormAddRelu"), 0);
}

TEST_F(FuseNorms, NotWhereTheAdditionBroadcasts) {
  const Output y = ops::Relu(root_, ops::Add(root_, norm_.y, offset_));
  EXPECT_EQ(Count(Compare({y}), "BatchNormAddRelu"), 0);
}

TEST_F(FuseNorms, NotWhereTheAddendNeedsTheMean) {
  const Output addend = ops::Mul(root_, shortcut_, norm_.mean);
  const Output y = ops::Relu(root_, ops::Add(root_, norm_.y, addend));
  EXPECT_EQ(Count(Compare({y, norm_.mean}), "BatchNormAddRelu"), 0);
}

// Either may be fused but not both: each would wait for the other.
TEST_F(FuseNorms, OnlyOneOfTwoWhoseAddendsNeedEachOthersMean) {
  const auto other = ops::BatchNorm(root_, shortcut_, scale_, offset_);
  const Output first = ops::Relu(root_, ops::Add(root_, norm_.y, ops::Mul(root_, x_, other.mean)));
  const Output second = ops::Relu(root_, ops::Add(root_, other.y, ops::Mul(root_, x_, norm_.mean)));
  EXPECT_EQ(Count(Compare({first, second}), "BatchNormAddRelu"), 1);
}

TEST_F(FuseNorms, AVariableIsReadBeforeTheSameUpdatesAsWithout) {
  const Variable scale = GetVariable(root_, "scale", {6}, ConstantInitializer(1));
  const auto norm = ops::BatchNorm(root_, x_, scale.value(), offset_);
  const Output updated = ops::Assign(root_, scale, ops::Const(root_, {9.f, 8.f, 7.f, 6.f, 5.f, 4.f}));
  const Output y = ops::Relu(root_, ops::Add(root_, norm.y, ops::Mul(root_, shortcut_, updated)));
  EXPECT_EQ(Count(Compare({y, norm.mean}), "BatchNormAddRelu"), 0);
}

TEST_F(FuseNorms, UpdatesKeepTheirOrder) {
  const Variable mean = GetVariable(root_, "mean", {6}, ConstantInitializer(0));
  const Output first = ops::Assign(root_, mean, norm_.mean);
  const auto other = ops::BatchNorm(root_, shortcut_, scale_, offset_);
  const Output second = ops::Assign(root_, mean, other.mean);
  const Output y = ops::Relu(root_, other.y);  // other's mean is computed before norm_'s
  const Plan& plan = Compare({y, ops::Relu(root_, norm_.y), first, second});
  EXPECT_EQ(Count(plan, "BatchNormRelu"), 2);
  EXPECT_THAT(session_->ReadVariable(mean)->ToDoubles(),
              testing::Pointwise(testing::FloatNear(1e-5f), step_->fetched(3).ToDoubles()));
}

// All ranks of a collective run together, so each waits for everything that any of them needs.
TEST_F(FuseNorms, NotWhereTheAddendComesFromACollective) {
  const auto reduce = [&](Output value, int64_t rank) {
    return root_.Add(
        "AllReduce", {ops::Const(root_, 1.f), value},
        {{"group", std::string("g")}, {"rank", rank}, {"size", int64_t{2}}, {"reduction", std::string("sum")}});
  };
  const Output mean = reduce(norm_.mean, 0), other = reduce(offset_, 1);
  const Output y = ops::Relu(root_, ops::Add(root_, norm_.y, ops::Mul(root_, shortcut_, other)));
  EXPECT_EQ(Count(Compare({y, mean}), "BatchNormAddRelu"), 0);
}

TEST_F(FuseNorms, NotWhatIsAddedToItself) {
  const Output y = ops::Relu(root_, ops::Add(root_, norm_.y, norm_.y));
  EXPECT_EQ(Count(Compare({GradientsOf(y, {x_})[0], y}), "BatchNormAddRelu"), 0);
}

TEST_F(FuseNorms, NotAGradientOfAnotherEpsilon) {
  const Output y = ops::Relu(root_, norm_.y);
  const Output slope = root_.Add("ReluGrad", {shortcut_, y});
  const auto gradients =
      root_.AddAll("BatchNormGrad", {x_, slope, scale_, norm_.mean, norm_.variance}, {{"epsilon", 0.5}});
  const Plan& plan = Compare({gradients[0], gradients[1], y});
  EXPECT_EQ(Count(plan, "BatchNormRelu"), 1);
  EXPECT_EQ(Count(plan, "BatchNormReluGrad"), 0);
}

TEST_F(FuseNorms, OnlyWithoutControlInputs) {
  const Output one = ops::Const(root_, 1.f);
  const Output waited = ops::Add(root_, x_, one);
  const Output y = ops::Relu(root_.ControlDependencies({waited.node}), norm_.y);
  EXPECT_EQ(Count(Compare({y, waited}), "BatchNormRelu"), 0);
}

// A value that is above 0 before rounding may be 0 after it, and then gets no gradient.
TEST_F(FuseNorms, WhatIsRoundedToZeroHasNoGradient) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const double tiny = dtype == DType::kFloat16 ? 1e-8 : 1e-41;
    const auto norm = ops::BatchNorm(root_, ops::Cast(root_, x_, dtype), ops::Scale(root_, scale_, tiny),
                                     ops::Scale(root_, offset_, tiny));
    const Output y = ops::Cast(root_, ops::Relu(root_, norm.y), DType::kFloat32);
    std::vector<Output> fetches = GradientsOf(y, {offset_});
    fetches[0] = ops::Scale(root_, fetches[0], 1 / tiny / 1e3);
    const Plan& plan = Compare({fetches[0], ops::Scale(root_, y, 1 / tiny / 1e3)});
    EXPECT_EQ(Count(plan, "BatchNormReluGrad"), 1);
  }
}

// The gradient of a fused ReLU6 compares with this instead of rounding.
template <class T>
void ExpectLeastThatRoundsToSix() {
  const float least = ops::functor::RoundsToSix(kDTypeOf<T>);
  EXPECT_EQ(static_cast<float>(static_cast<T>(least)), 6);
  EXPECT_LT(static_cast<float>(static_cast<T>(std::nextafter(least, 0.f))), 6);
}
TEST(RoundsToSix, IsTheLeastValueThatDoes) {
  ExpectLeastThatRoundsToSix<float>();
  ExpectLeastThatRoundsToSix<Half>();
  ExpectLeastThatRoundsToSix<BFloat16>();
}

TEST_F(FuseNorms, TheGradientOfGivenStatisticsStays) {
  const Output y =
      ops::Relu(root_, ops::BatchNormInference(root_, x_, scale_, offset_, offset_, ops::Square(root_, scale_)));
  const Plan& plan = Compare({GradientsOf(y, {x_})[0], y});
  EXPECT_EQ(Count(plan, "BatchNormReluGrad"), 0);
  EXPECT_EQ(Count(plan, "BatchNormGrad"), 1);
}

}  // namespace
}  // namespace belfry
