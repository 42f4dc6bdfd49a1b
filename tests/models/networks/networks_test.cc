#include <algorithm>
#include <cmath>
#include <functional>

#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/layers/parameters.h"
#include "models/networks/cifar_net.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/speedrun_net.h"
#include "ops/builtin_ops.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Networks : public ModelTest {
 protected:
  using Build = std::function<Output(const Scope&, Output)>;

  // Trains on one small random batch of size x size pixels; the cross-entropy must shrink to a fraction of its first
  // value.
  void ExpectLearns(const Build& build, int64_t size, float rate, int steps) {
    const Output images = Images(size, size, 3), labels = Labels();
    const Output logits = build(scope_, images);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 10}));
    const Output loss = AddCrossEntropy(scope_, logits, labels);
    const Node* step = Descent(TotalLoss(scope_), rate);
    Start();
    const std::vector<Feed> feeds = {{images, Random({4, size, size, 3})}, {labels, Classes(4, 10)}};
    const float before = Scalar(feeds, loss);
    for (int i = 0; i < steps; ++i) Run(feeds, {}, {step});
    EXPECT_LT(Scalar(feeds, loss), 0.5f * before);
  }
};

// Several steps from the same start on the same batch, in float32 and with 16-bit inputs.
TEST_F(Networks, SixteenBitsTrainFloat32Variables) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Tensor batch = Random({6, 8, 8, 3});
    std::vector<float> losses[2];
    for (int narrow = 0; narrow < 2; ++narrow) {
      Graph graph(BuiltinOps());
      graph.set_seed(7);
      const Scope scope(graph);
      const Output images = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 8, 8, 3});
      const Output labels = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown});
      const Output x = narrow == 1 ? ops::Cast(scope, images, dtype) : images;
      const Output y = Conv2D(scope, "conv", x, 8, 3, {.activation = Activation::kRelu, .weight_decay = 1e-3});
      AddCrossEntropy(scope, Dense(scope, "dense", Flatten(scope, y), 10), labels);
      const Output loss = TotalLoss(scope);
      const auto gradients = optim::ComputeGradients(scope, loss, optim::TrainableVariables(scope));
      for (const optim::GradientAndVariable& each : gradients) {
        EXPECT_EQ(each.variable.dtype(), DType::kFloat32) << each.variable.name();
        EXPECT_EQ(each.gradient.dtype(), DType::kFloat32) << each.variable.name();
      }
      const Node* step = optim::ApplyGradients(scope, optim::GradientDescent({.learning_rate = 0.05}), gradients);
      const Node* initialize = InitializeVariables(scope);
      ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices_));
      ASSERT_TRUE(session->RunTarget(initialize).ok());
      const std::vector<Feed> feeds = {{images, batch}, {labels, Classes(6, 10)}};
      for (int i = 0; i < 12; ++i) {
        ASSERT_OK_AND_ASSIGN(const auto values, session->Run(feeds, {loss}, {step}));
        EXPECT_EQ(values[0].dtype(), DType::kFloat32);
        losses[narrow].push_back(values[0].scalar<float>());
      }
      EXPECT_LT(losses[narrow].back(), 0.8f * losses[narrow].front());
    }
    for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 0.03 * losses[0][0]) << i;
  }
}

TEST_F(Networks, CifarNetHasTheTutorialsVariables) {
  const Output logits = CifarNet(scope_, Images(24, 24, 3));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 10}));
  EXPECT_EQ(ParameterCount(scope_), 1'068'298);
  EXPECT_THAT(VariableNames(), ElementsAre("conv1/weights", "conv1/biases", "conv2/weights", "conv2/biases",
                                           "local3/weights", "local3/biases", "local4/weights", "local4/biases",
                                           "softmax_linear/weights", "softmax_linear/biases"));
  EXPECT_EQ(Find("local3/weights").shape(), Shape({2304, 384}));
}

TEST_F(Networks, CifarNetStartsAsTheTutorialDoes) {
  CifarNet(scope_, Images(24, 24, 3));
  const Output decay = TotalLoss(scope_);
  Start();
  struct {
    const char* layer;
    double stddev, bias;
  } expected[] = {{"conv1", 0.05, 0},
                  {"conv2", 0.05, 0.1},
                  {"local3", 0.04, 0.1},
                  {"local4", 0.04, 0.1},
                  {"softmax_linear", 1 / 192.0, 0}};
  double decayed = 0;
  for (const auto& [layer, stddev, bias] : expected) {
    const std::vector<double> weights = Value(Find(std::string(layer) + "/weights"));
    double squares = 0, largest = 0;
    for (double w : weights) squares += w * w, largest = std::max(largest, std::abs(w));
    // A normal distribution cut at two standard deviations keeps 0.7737 of its variance.
    const double kept = squares / static_cast<double>(weights.size()) / (0.7737 * stddev * stddev);
    EXPECT_NEAR(kept, 1, 6 * std::sqrt(2.0 / static_cast<double>(weights.size()))) << layer;
    EXPECT_LE(largest, 2.0001 * stddev) << layer;
    for (double b : Value(Find(std::string(layer) + "/biases"))) ASSERT_FLOAT_EQ(b, bias) << layer;
    if (layer[0] == 'l') decayed += squares;
  }
  EXPECT_NEAR(Scalar({}, decay) / (0.004 * decayed / 2), 1, 1e-5);
}

TEST_F(Networks, CifarNetLearns) {
  ExpectLearns([](const Scope& scope, Output x) { return CifarNet(scope, x); }, 24, 0.05f, 20);
}

TEST_F(Networks, ResNetLearns) {
  ExpectLearns([](const Scope& scope, Output x) { return ResNet(scope, x, {.depth = 14}); }, 9, 0.05f, 30);
}

TEST_F(Networks, ResNetWithProjectionsLearns) {
  ExpectLearns(
      [](const Scope& scope, Output x) { return ResNet(scope, x, {.depth = 8, .shortcut = Shortcut::kProjection}); }, 8,
      0.05f, 30);
}

TEST_F(Networks, SoftmaxRegressionLearns) {
  ExpectLearns([](const Scope& scope, Output x) { return SoftmaxRegression(scope, x, {.weight_decay = 1e-4}); }, 5,
               0.1f, 50);
  EXPECT_THAT(VariableNames(), ElementsAre("softmax_linear/weights", "softmax_linear/biases"));
}

TEST_F(Networks, MlpLearns) {
  ExpectLearns(
      [](const Scope& scope, Output x) {
        return Mlp(scope, x, {.hidden = {40, 30}, .activation = Activation::kTanh, .dropout = 0.01});
      },
      5, 0.1f, 50);
  EXPECT_EQ(ParameterCount(scope_), 75 * 40 + 40 + 40 * 30 + 30 + 30 * 10 + 10);
}

TEST_F(Networks, SpeedrunNetLearns) {
  ExpectLearns(
      [](const Scope& scope, Output x) {
        return SpeedrunNet(scope, x, {.widths = {12, 16, 16}});
      },
      32, 0.5f, 20);
}

TEST_F(Networks, SpeedrunNetIsThePapers) {
  const Output logits = SpeedrunNet(scope_, Images(32, 32, 3));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 10}));
  // Whitening and its biases; the convolutions of three groups; their offsets; the last layer.
  const int64_t convolutions = 24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256;
  EXPECT_EQ(ParameterCount(scope_), 12 * 24 + 24 + 9 * convolutions + 2 * (64 + 256 + 256) + 2560);
  EXPECT_EQ(ParameterCount(scope_), 1'971'640);
  EXPECT_EQ(graph_.GetCollection(kUpdateOps).size(), 12u);
}

// Filters that pass on a channel, as many as there are, and random ones in +-1 / sqrt(fan-in).
TEST_F(Networks, SpeedrunNetStartsPartlyAsTheIdentity) {
  Tensor whitening(DType::kFloat32, {2, 2, 3, 24});
  for (int64_t i = 0; i < whitening.elements(); ++i) whitening.data<float>()[i] = static_cast<float>(i);
  SpeedrunNet(scope_, Images(32, 32, 3), {.widths = {32, 16, 16}, .unit_logits = true, .whitening = whitening});
  Start();
  EXPECT_EQ(Value(Find("whiten/weights")), whitening.ToDoubles());
  const auto expect = [&](const char* name, int64_t channels, int64_t filters) {
    const std::vector<double> weights = Value(Find(name));
    ASSERT_EQ(weights.size(), static_cast<size_t>(9 * channels * filters)) << name;
    double square = 0, largest = 0;
    for (int64_t i = 0; i < 9 * channels * filters; ++i) {
      const int64_t filter = i % filters, channel = i / filters % channels, place = i / filters / channels;
      if (filter < channels) {
        ASSERT_EQ(weights[i], place == 4 && filter == channel ? 1 : 0) << name << " " << i;
        continue;
      }
      square += weights[i] * weights[i];
      largest = std::max(largest, std::abs(weights[i]));
    }
    if (filters <= channels) return;
    const double limit = 1 / std::sqrt(9.0 * static_cast<double>(channels));
    EXPECT_LE(largest, limit);
    EXPECT_NEAR(square / static_cast<double>(9 * channels * (filters - channels)), limit * limit / 3,
                0.2 * limit * limit);
  };
  expect("group1/conv1/weights", 24, 32);
  expect("group1/conv2/weights", 32, 32);
  expect("group2/conv1/weights", 32, 16);
  expect("group3/conv2/weights", 16, 16);
  double square = 0;
  for (const double weight : Value(Find("logits/weights"))) square += weight * weight / 160;
  EXPECT_NEAR(square, 1, 0.35);
}

TEST_F(Networks, SpeedrunNetNeedsPixels) {
  EXPECT_FALSE(SpeedrunNet(scope_, Images(16, 16, 3)).valid());
  EXPECT_FALSE(graph_.status().ok());
}

TEST(ResNet, ParameterCounts) {
  struct {
    int depth;
    Shortcut shortcut;
    int64_t parameters;
  } cases[] = {{20, Shortcut::kPad, 269'722},
               {32, Shortcut::kPad, 464'154},
               {44, Shortcut::kPad, 658'586},
               {56, Shortcut::kPad, 853'018},
               {20, Shortcut::kProjection, 272'474}};
  for (const auto& [depth, shortcut, parameters] : cases) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output images = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 32, 32, 3});
    const Output logits = ResNet(scope, images, {.depth = depth, .shortcut = shortcut});
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 10}));
    EXPECT_EQ(ParameterCount(scope), parameters) << depth;
    // Two moving averages for each convolution that counts for the depth, and for each projection.
    const int norms = depth - 1 + (shortcut == Shortcut::kProjection ? 2 : 0);
    EXPECT_EQ(graph.GetCollection(kUpdateOps).size(), 2u * norms) << depth;
    EXPECT_EQ(graph.GetCollection(kLosses).size(), norms + 1u) << depth;
  }
}

TEST(ResNet, AnotherDepthIsAnError) {
  for (int depth : {-4, 2, 18, 34}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output images = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 32, 32, 3});
    EXPECT_FALSE(ResNet(scope, images, {.depth = depth}).valid());
    EXPECT_THAT(graph.status().message(), HasSubstr("expected 6n + 2"));
  }
}

}  // namespace
}  // namespace belfry::models
