// The gradients around batch norm on GPUs: masks, sums and bias sums as parts of others.
#include <string>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "tests/framework/runtime/gpu_rewrites_fixture.h"

namespace belfry {
namespace {

class GpuNorms : public GpuRewrites {
 protected:
  Output WeightedSum(Output y) { return ops::Sum(scope_, ops::Mul(scope_, y, Floats(y.shape()))); }
  std::vector<Output> GradientsOf(Output loss, const std::vector<Output>& of) {
    return ValueOf(Gradients(scope_, {loss}, of));
  }
  // relu(norm(x_) + shortcut_)
  Output Block() {
    return ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale_, Floats({kChannels})).y, shortcut_));
  }
  void Compare(const std::vector<Output>& fetches) { ops_ = CompareTo(2e-4, fetches); }
  int64_t Count(const std::string& op) const { return GpuRewrites::Count(ops_, op); }

  static constexpr int64_t kChannels = 6;
  std::vector<std::string> ops_;  // of the fused plan that was compared last
  const Output x_ = Floats({12, 3, 5, kChannels}), shortcut_ = Floats({12, 3, 5, kChannels}),
               scale_ = Floats({kChannels});
};

TEST_F(GpuNorms, TheGradientOfABlockThatOneLayerReads) {
  Compare(GradientsOf(WeightedSum(Block()), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
  for (const char* op : {"BatchNormGrad", "ReluGrad"}) EXPECT_EQ(Count(op), 0) << op;
}

TEST_F(GpuNorms, TheGradientOfABlockThatTwoLayersRead) {
  const Output y = Block();
  Compare(GradientsOf(ops::Add(scope_, WeightedSum(y), WeightedSum(ops::Tanh(scope_, y))), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormAddReluGradOfSum"), 1);
  for (const char* op : {"BatchNormGrad", "ReluGrad", "AddN"}) EXPECT_EQ(Count(op), 0) << op;
}

TEST_F(GpuNorms, TwoNormsUnderOneReLU) {
  const auto other = ops::BatchNorm(scope_, shortcut_, scale_, Floats({kChannels}));
  const Output y =
      ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale_, Floats({kChannels})).y, other.y));
  Compare(GradientsOf(WeightedSum(y), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
  EXPECT_EQ(Count("BatchNormGrad"), 1);
  EXPECT_EQ(Count("ReluGrad"), 0);
}

TEST_F(GpuNorms, ASumUnderAReLU) {
  const Output y = ops::Relu(scope_, ops::BatchNorm(scope_, x_, scale_, Floats({kChannels})).y);
  Compare(GradientsOf(ops::Add(scope_, WeightedSum(y), WeightedSum(ops::Tanh(scope_, y))), {x_, scale_}));
  EXPECT_EQ(Count("BatchNormReluGradOfSum"), 1);
  for (const char* op : {"BatchNormReluGrad", "ReluGrad", "AddN"}) EXPECT_EQ(Count(op), 0) << op;
}

// The bias's gradient sums what the pool's windows get.
TEST_F(GpuNorms, ABiasUnderAPool) {
  const Output bias = Floats({kChannels}), y = ops::Relu(scope_, ops::BiasAdd(scope_, x_, bias));
  const Output loss = WeightedSum(ops::MaxPool(scope_, y, {.height = 3, .width = 3, .stride_h = 2, .stride_w = 2}));
  Compare(GradientsOf(loss, {bias}));
  EXPECT_EQ(Count("BiasAddGrad"), 1);
  EXPECT_EQ(Count("MaxPoolGrad"), 0);
}

TEST_F(GpuNorms, BlocksInSeries) {
  Output y = Block();
  const std::vector<Output> first = {x_, scale_, shortcut_};
  for (int i = 0; i < 2; ++i) {
    const Output scale = Floats({kChannels});
    const Output norm = ops::BatchNorm(scope_, ops::Tanh(scope_, y), scale, Floats({kChannels})).y;
    y = ops::Relu(scope_, ops::Add(scope_, norm, y));
  }
  Compare(GradientsOf(WeightedSum(y), first));
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
  EXPECT_EQ(Count("BatchNormAddReluGradOfSum"), 2);
  EXPECT_EQ(Count("ReluGrad"), 0);
}

TEST_F(GpuNorms, AnUpdateStillWaitsForTheGradientThatReadsItsVariable) {
  const Variable scale = GetVariable(scope_, "scale", {kChannels}, ConstantInitializer(1));
  const Output y =
      ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale, Floats({kChannels})).y, shortcut_));
  std::vector<Output> fetches = GradientsOf(WeightedSum(y), {x_, scale, shortcut_});
  const Scope after = scope_.ControlDependencies({fetches[0]});
  fetches.push_back(ops::AssignSub(after, scale, fetches[1]));
  Compare(fetches);
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
}

TEST_F(GpuNorms, GivenStatisticsAreLeftAlone) {
  const Output norm = ops::BatchNormInference(scope_, x_, scale_, Floats({kChannels}), Floats({kChannels}),
                                              ops::Square(scope_, Floats({kChannels})));
  const Output y = ops::Relu(scope_, ops::Add(scope_, norm, shortcut_));
  Compare(GradientsOf(WeightedSum(y), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormGrad"), 1);
}

TEST_F(GpuNorms, AGradientThatHasToWaitIsLeftAlone) {
  const Output y = ops::Relu(scope_, x_), dy = Floats(x_.shape());
  const Output masked = scope_.Add("ReluGrad", {dy, y});
  const Output mean = ops::Mean(scope_, masked, {0, 1, 2}), variance = ops::Square(scope_, Floats({kChannels}));
  const std::vector<Output> gradient =
      scope_.AddAll("BatchNormGrad", {x_, masked, scale_, mean, variance}, {{"epsilon", 1e-3}});
  Compare({gradient[0], gradient[1], gradient[2], masked});
  EXPECT_EQ(Count("BatchNormGrad"), 1);
}

}  // namespace
}  // namespace belfry
