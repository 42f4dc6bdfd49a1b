// The gradient of a residual block's end on GPUs: batch norm's, the ReLU's and the sum's in one node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "framework/graph/gradients.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/seed.h"

namespace belfry {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

class GpuNorms : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DeviceSet> devices = OpenTestGpus(1);
    if (!devices.ok()) GTEST_SKIP() << devices.status().message();
    devices_ = std::make_unique<DeviceSet>(*std::move(devices));
  }
  Output Feed(const Shape& shape) {
    feeds_.push_back({ops::Placeholder(scope_, DType::kFloat32, shape), shape});
    Tensor values(DType::kFloat32, shape);
    std::normal_distribution<float> normal;
    std::generate_n(values.data<float>(), values.elements(), [&] { return normal(random_); });
    values_.push_back(std::move(values));
    return feeds_.back().output;
  }
  Output WeightedSum(Output y) { return ops::Sum(scope_, ops::Mul(scope_, y, Feed(y.shape()))); }
  std::vector<Output> GradientsOf(Output loss, const std::vector<Output>& of) {
    auto gradients = Gradients(scope_, {loss}, of);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return *gradients;
  }
  // relu(norm(x_) + shortcut_)
  Output Block() {
    return ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale_, Feed({kChannels})).y, shortcut_));
  }

  std::vector<std::vector<float>> Run(const std::vector<Output>& fetches, bool fuse) {
    auto session = Session::Create(graph_, *devices_, {.fuse = fuse});
    EXPECT_TRUE(session.ok()) << session.status();
    if (initialize_ != nullptr) {
      EXPECT_TRUE((*session)->RunTarget(initialize_).ok());
    }
    auto step = (*session)->Prepare(feeds_, fetches);
    EXPECT_TRUE(step.ok()) << step.status();
    std::vector<std::vector<float>> results;
    if (!step.ok()) return results;
    if (fuse) {
      ops_.clear();
      const Program& program = (*step)->plan().program;
      for (const ProgramNode& node : program.nodes) {
        ops_.push_back(node.op->name);
        if (!node.inputs.empty()) read_[node.op->name] = program.spec(node.inputs[0]).shape.elements();
      }
    }
    EXPECT_TRUE((*step)->Run(values_).ok());
    EXPECT_TRUE((*step)->Wait().ok());
    for (size_t i = 0; i < fetches.size(); ++i) {
      const Tensor& tensor = (*step)->fetched(static_cast<int>(i));
      results.emplace_back(tensor.data<float>(), tensor.data<float>() + tensor.elements());
    }
    return results;
  }
  void Compare(const std::vector<Output>& fetches) {
    const auto expected = Run(fetches, false), actual = Run(fetches, true);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_THAT(actual[i], Pointwise(FloatNear(2e-4f), expected[i])) << "fetch " << i;
    }
  }
  int64_t Count(const std::string& op) const { return std::count(ops_.begin(), ops_.end(), op); }

  // Elements of input 0 of the last node of this op.
  int64_t Summed(const std::string& op) const { return read_.at(op); }

  static constexpr int64_t kChannels = 6;
  std::mt19937 random_{TestSeed()};
  Graph graph_{BuiltinOps()};
  Scope scope_ = Scope(graph_).Device("/gpu:0");
  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::vector<std::string> ops_;
  std::map<std::string, int64_t> read_;
  std::unique_ptr<DeviceSet> devices_;
  const Node* initialize_ = nullptr;
  const Output x_ = Feed({12, 3, 5, kChannels}), shortcut_ = Feed({12, 3, 5, kChannels}), scale_ = Feed({kChannels});
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
  const auto other = ops::BatchNorm(scope_, shortcut_, scale_, Feed({kChannels}));
  const Output y =
      ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale_, Feed({kChannels})).y, other.y));
  Compare(GradientsOf(WeightedSum(y), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
  EXPECT_EQ(Count("BatchNormGrad"), 1);
  EXPECT_EQ(Count("ReluGrad"), 0);
}

TEST_F(GpuNorms, ASumUnderAReLU) {
  const Output y = ops::Relu(scope_, ops::BatchNorm(scope_, x_, scale_, Feed({kChannels})).y);
  Compare(GradientsOf(ops::Add(scope_, WeightedSum(y), WeightedSum(ops::Tanh(scope_, y))), {x_, scale_}));
  EXPECT_EQ(Count("BatchNormReluGradOfSum"), 1);
  for (const char* op : {"BatchNormReluGrad", "ReluGrad", "AddN"}) EXPECT_EQ(Count(op), 0) << op;
}

// The bias's gradient sums what the pool's windows get.
TEST_F(GpuNorms, ABiasUnderAPool) {
  const Output bias = Feed({kChannels}), y = ops::Relu(scope_, ops::BiasAdd(scope_, x_, bias));
  Output loss = WeightedSum(ops::MaxPool(scope_, y, {.height = 3, .width = 3, .stride_h = 2, .stride_w = 2}));
  Compare(GradientsOf(loss, {bias, x_}));
  ASSERT_EQ(Count("BiasAddGrad"), 1);
  EXPECT_EQ(Summed("BiasAddGrad"), 12 * 2 * 3 * kChannels);
}

TEST_F(GpuNorms, BlocksInSeries) {
  Output y = Block();
  const std::vector<Output> first = {x_, scale_, shortcut_};
  for (int i = 0; i < 2; ++i) {
    const Output scale = Feed({kChannels});
    const Output norm = ops::BatchNorm(scope_, ops::Tanh(scope_, y), scale, Feed({kChannels})).y;
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
      ops::Relu(scope_, ops::Add(scope_, ops::BatchNorm(scope_, x_, scale, Feed({kChannels})).y, shortcut_));
  const Node* const initialize = InitializeVariables(scope_);
  std::vector<Output> fetches = GradientsOf(WeightedSum(y), {x_, scale, shortcut_});
  const Scope after = scope_.ControlDependencies({fetches[0]});
  fetches.push_back(ops::AssignSub(after, scale, fetches[1]));
  initialize_ = initialize;
  Compare(fetches);
  EXPECT_EQ(Count("BatchNormAddReluGrad"), 1);
}

TEST_F(GpuNorms, GivenStatisticsAreLeftAlone) {
  const Output norm = ops::BatchNormInference(scope_, x_, scale_, Feed({kChannels}), Feed({kChannels}),
                                              ops::Square(scope_, Feed({kChannels})));
  const Output y = ops::Relu(scope_, ops::Add(scope_, norm, shortcut_));
  Compare(GradientsOf(WeightedSum(y), {x_, scale_, shortcut_}));
  EXPECT_EQ(Count("BatchNormGrad"), 1);
}

TEST_F(GpuNorms, AGradientThatHasToWaitIsLeftAlone) {
  const Output y = ops::Relu(scope_, x_), dy = Feed(x_.shape());
  const Output masked = scope_.Add("ReluGrad", {dy, y});
  const Output mean = ops::Mean(scope_, masked, {0, 1, 2}), variance = ops::Square(scope_, Feed({kChannels}));
  const std::vector<Output> gradient =
      scope_.AddAll("BatchNormGrad", {x_, masked, scale_, mean, variance}, {{"epsilon", 1e-3}});
  Compare({gradient[0], gradient[1], gradient[2], masked});
  EXPECT_EQ(Count("BatchNormGrad"), 1);
}

}  // namespace
}  // namespace belfry
