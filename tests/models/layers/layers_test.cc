#include "models/layers/layers.h"

#include <algorithm>
#include <cmath>

#include "models/layers/attention.h"
#include "models/layers/losses.h"
#include "ops/builtin_ops.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Layers = ModelTest;

TEST_F(Layers, DenseComputesItsFormula) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 5});
  const Output y = Dense(scope_, "dense", x, 3, {.activation = Activation::kRelu, .biases = ConstantInitializer(0.25)});
  EXPECT_EQ(y.shape(), Shape({Shape::kUnknown, 3}));
  Start();
  const Tensor input = Random({7, 5});
  const std::vector<double> result = Run({{x, input}}, {y})[0].ToDoubles(), in = input.ToDoubles(),
                            weights = Value(Find("dense/weights"));
  ASSERT_EQ(result.size(), 21u);
  for (int row = 0; row < 7; ++row) {
    for (int unit = 0; unit < 3; ++unit) {
      double sum = 0.25;
      for (int c = 0; c < 5; ++c) sum += in[row * 5 + c] * weights[c * 3 + unit];
      EXPECT_NEAR(result[row * 3 + unit], std::max(sum, 0.0), 1e-5);
    }
  }
}

TEST_F(Layers, DenseTakesLeadingAxes) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 5});
  const Output y = Dense(scope_, "dense", x, 3);
  EXPECT_EQ(y.shape(), Shape({Shape::kUnknown, 4, 3}));
  Start();
  EXPECT_EQ(Run({{x, Random({2, 4, 5})}}, {y})[0].shape(), Shape({2, 4, 3}));
}

TEST_F(Layers, VariablesTakeTheDtypeOfTheInput) {
  const Output x = ops::Placeholder(scope_, DType::kFloat64, {Shape::kUnknown, 5});
  EXPECT_EQ(Dense(scope_, "dense", x, 3).dtype(), DType::kFloat64);
  EXPECT_EQ(Find("dense/weights").dtype(), DType::kFloat64);
}

TEST_F(Layers, ConvolutionShapes) {
  const Output x = Images(9, 8, 6);
  const Output same = Conv2D(scope_, "same", x, 4, {1, 7}, {.stride = {2, 1}});
  const Output valid = Conv2D(scope_, "valid", x, 4, 3, {.padding = ops::Padding::Valid(), .dilation = 2});
  const Output grouped = Conv2D(scope_, "grouped", x, 4, 3, {.groups = 2, .use_bias = false});
  EXPECT_EQ(same.shape(), Shape({Shape::kUnknown, 5, 8, 4}));
  EXPECT_EQ(valid.shape(), Shape({Shape::kUnknown, 5, 4, 4}));
  EXPECT_EQ(Find("same/weights").shape(), Shape({1, 7, 6, 4}));
  EXPECT_EQ(Find("grouped/weights").shape(), Shape({3, 3, 3, 4}));
  EXPECT_FALSE(Find("grouped/biases").valid());
  Start();
  const std::vector<Tensor> result = Run({{x, Random({3, 9, 8, 6})}}, {same, valid, grouped});
  EXPECT_EQ(result[0].shape(), Shape({3, 5, 8, 4}));
  EXPECT_EQ(result[1].shape(), Shape({3, 5, 4, 4}));
  EXPECT_EQ(result[2].shape(), Shape({3, 9, 8, 4}));
}

TEST_F(Layers, ConvolutionOfOnePixelIsDense) {
  const Output x = Images(3, 2, 5);
  const Output conv = Conv2D(scope_, "conv", x, 4, 1, {.activation = Activation::kTanh});
  Start();
  const Tensor input = Random({2, 3, 2, 5});
  const std::vector<double> result = Run({{x, input}}, {conv})[0].ToDoubles(), in = input.ToDoubles(),
                            weights = Value(Find("conv/weights"));
  for (size_t i = 0; i < result.size(); ++i) {
    double sum = 0;
    for (int c = 0; c < 5; ++c) sum += in[i / 4 * 5 + c] * weights[c * 4 + i % 4];
    EXPECT_NEAR(result[i], std::tanh(sum), 1e-5);
  }
}

TEST_F(Layers, PoolsAreNamedNodes) {
  const Output x = Images(5, 5, 2);
  const Output largest = MaxPool(scope_, "pool1", x, {.window = 3, .stride = 2});
  const Output mean = AvgPool(scope_, "pool2", x, {.window = {1, 5}, .stride = 1, .padding = ops::Padding::Valid()});
  EXPECT_EQ(largest.node->name(), "pool1");
  EXPECT_EQ(largest.shape(), Shape({Shape::kUnknown, 3, 3, 2}));
  EXPECT_EQ(mean.shape(), Shape({Shape::kUnknown, 5, 1, 2}));
}

TEST_F(Layers, DropoutOnlyWhileTraining) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 1000});
  EXPECT_EQ(Dropout(scope_, "dropout", x, 0.5, false), x);
  const Output dropped = Dropout(scope_, "dropout", x, 0.5, true);
  Start();
  Tensor ones(DType::kFloat32, {3, 1000});
  std::fill_n(ones.data<float>(), ones.elements(), 1.0f);
  int zeros = 0;
  for (double value : Run({{x, ones}}, {dropped})[0].ToDoubles()) {
    EXPECT_TRUE(value == 0 || value == 2) << value;
    zeros += value == 0;
  }
  EXPECT_NEAR(zeros, 1500, 200);
}

TEST_F(Layers, FlattenKeepsTheBatch) {
  const Output x = Images(2, 3, 4);
  const Output flat = Flatten(scope_, x);
  EXPECT_EQ(flat.shape(), Shape({Shape::kUnknown, 24}));
  EXPECT_EQ(Flatten(scope_, Labels()).shape(), Shape({Shape::kUnknown, 1}));
  Start();
  const Tensor input = Random({5, 2, 3, 4});
  const Tensor result = Run({{x, input}}, {flat})[0];
  EXPECT_EQ(result.shape(), Shape({5, 24}));
  EXPECT_EQ(result.ToDoubles(), input.ToDoubles());
}

TEST_F(Layers, NamesOfVariablesDoNotDependOnTowers) {
  for (int tower = 0; tower < 2; ++tower) {
    const Scope scope = scope_.NameScope("tower_" + std::to_string(tower)).Replica(tower);
    const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 4, 4, 1});
    const Output y = Conv2D(scope.VariableScope("encoder"), "conv1", x, 2, 3);
    EXPECT_THAT(y.name(), HasSubstr("tower_" + std::to_string(tower) + "/encoder/conv1/"));
  }
  EXPECT_THAT(VariableNames(), ElementsAre("encoder/conv1/weights", "encoder/conv1/biases", "encoder/conv1/weights",
                                           "encoder/conv1/biases"));
  EXPECT_EQ(graph_.variables()[2].replica(), 1);
}

TEST_F(Layers, TwoLayersOfOneNameShareOnlyOnRequest) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 5});
  Dense(scope_, "dense", x, 3);
  Dense(scope_.ReuseVariables(Reuse::kAlways), "dense", x, 3);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(VariableNames(), ElementsAre("dense/weights", "dense/biases"));
  Dense(scope_, "dense", x, 3);
  EXPECT_THAT(graph_.status().message(), HasSubstr("dense/weights already exists"));
}

struct BadLayer {
  const char* message;
  std::function<Output(const Scope&, Output)> build;
};

TEST(LayerErrors, NameTheLayerAndItsInput) {
  const BadLayer cases[] = {
      {"Dense 'model/fc' needs an input of rank 2 or more",
       [](const Scope& scope, Output) { return Dense(scope, "fc", ops::Placeholder(scope, DType::kFloat32, {5}), 3); }},
      {"Dense 'model/fc' needs an input with a known last extent",
       [](const Scope& scope, Output) {
         return Dense(scope, "fc", ops::Placeholder(scope, DType::kFloat32, {5, Shape::kUnknown}), 3);
       }},
      {"Dense 'model/fc' has 0 units", [](const Scope& scope, Output x) { return Dense(scope, "fc", x, 0); }},
      {"Dense 'model/fc' has an invalid Output as input",
       [](const Scope& scope, Output) { return Dense(scope, "fc", Output(), 3); }},
      {"Conv2D 'model/conv' needs images",
       [](const Scope& scope, Output) {
         return Conv2D(scope, "conv", ops::Placeholder(scope, DType::kFloat32, {5, 3}), 3, 3);
       }},
      {"Conv2D 'model/conv' has 4 filters of 0x1",
       [](const Scope& scope, Output x) {
         return Conv2D(scope, "conv", x, 4, {0, 1});
       }},
      {"Conv2D 'model/conv' cannot split 3 channels and 4 filters into 2 groups",
       [](const Scope& scope, Output x) { return Conv2D(scope, "conv", x, 4, 1, {.groups = 2}); }},
      {"Flatten 'model/' needs an input whose extents are known, except the first",
       [](const Scope& scope, Output) {
         return Flatten(scope, ops::Placeholder(scope, DType::kFloat32, {5, Shape::kUnknown}));
       }},
  };
  for (const BadLayer& bad : cases) {
    Graph graph(BuiltinOps());
    const Scope scope = Scope(graph).NameScope("model");
    const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 8, 8, 3});
    EXPECT_FALSE(bad.build(scope, x).valid());
    EXPECT_THAT(graph.status().message(), HasSubstr(bad.message));
  }
}

// Memory that a cache has not written yet may hold anything.
TEST_F(Layers, WhatLiesBehindTheEndOfACacheIsWithoutEffect) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {2, 1, 8});
  const Output cache = ops::Placeholder(scope_, DType::kFloat32, {2, 20, 2, 4});
  const Output past = ops::Placeholder(scope_, DType::kInt32, {2});
  const Output y = CachedAttention(scope_, "attention", x, cache, cache, past, {.heads = 2, .rotary = true}).y;
  Start();
  const Tensor input = Random({2, 1, 8}), ends = Tensor::Of<int32_t>({3, 20});
  Tensor cached = Random({2, 20, 2, 4});
  const auto with = [&](float behind) {
    std::fill(cached.data<float>() + 3 * 8, cached.data<float>() + 20 * 8, behind);
    return Run({{x, input}, {cache, cached}, {past, ends}}, {y})[0];
  };
  const Tensor expected = with(0);
  for (const float behind : {INFINITY, -INFINITY, NAN}) EXPECT_TRUE(SameBits(with(behind), expected)) << behind;
}

}  // namespace
}  // namespace belfry::models
