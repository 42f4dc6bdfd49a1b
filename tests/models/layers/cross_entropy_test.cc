#include "models/layers/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "optim/descent.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointwise;

struct Result {
  double loss, weight;
  std::vector<double> gradient;
};

class MeanCrossEntropyTest : public ModelTest {
 protected:
  // The mean, its weight and its gradient, for logits of this dtype.
  Result Evaluate(const Tensor& logits, const Tensor& labels, const MeanCrossEntropyOptions& options,
                  DType dtype = DType::kFloat64) {
    const Output x = ops::Cast(scope_, ops::Const(scope_, logits), dtype);
    const MeanLoss mean = MeanCrossEntropy(scope_, x, ops::Const(scope_, labels), options);
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
    EXPECT_EQ(mean.loss.dtype(), narrow ? DType::kFloat32 : dtype);
    EXPECT_EQ(mean.weight.dtype(), DType::kFloat32);
    EXPECT_EQ(mean.loss.shape(), Shape());
    EXPECT_EQ(mean.weight.shape(), Shape());
    const auto gradients = ValueOf(Gradients(scope_, {mean.loss}, {x}));
    Start();
    const std::vector<Tensor> values = Run({}, {mean.loss, mean.weight, gradients[0]});
    return {values[0].ToDoubles()[0], values[1].scalar<float>(), values[2].ToDoubles()};
  }
  Output Weights(const std::vector<float>& weights) const {
    return ops::Const(scope_, Tensor::Of<float>(weights, {static_cast<int64_t>(weights.size())}));
  }

  const Tensor logits_ = Tensor::Of<double>({1, -2, 0.5, 0.25, 3, -1, 2, 2, 2, -4, 0.5, 1.5}, {4, 3});
  const Tensor labels_ = Tensor::Of<int64_t>({0, 2, -100, 1}, {4});
};

// Results of PyTorch's torch.nn.functional.cross_entropy, in double.
TEST_F(MeanCrossEntropyTest, IgnoresAsPyTorchDoes) {
  const Result result = Evaluate(logits_, labels_, {.ignore_label = -100});
  EXPECT_NEAR(result.loss, 1.9666260021230746, 1e-12);
  EXPECT_EQ(result.weight, 3);
  EXPECT_THAT(result.gradient,
              Pointwise(DoubleNear(1e-12), {-0.13208370128379138, 0.010019629189858006, 0.1220640720939334,
                                            0.01968991919750341, 0.30800215783595564, -0.32769207703345904, 0.0, 0.0,
                                            0.0, 0.0009929232466762083, -0.2439532310659407, 0.2429603078192645}));
}

TEST_F(MeanCrossEntropyTest, WeighsClassesAsPyTorchDoes) {
  const Result result = Evaluate(logits_, labels_, {.ignore_label = -100, .class_weights = Weights({0.5, 2, 3})});
  EXPECT_NEAR(result.loss, 2.749435792841658, 1e-12);
  EXPECT_EQ(result.weight, 5.5);
  EXPECT_THAT(result.gradient,
              Pointwise(DoubleNear(1e-12), {-0.0360228276228522, 0.0027326261426885478, 0.03329020148016366,
                                            0.03221986777773286, 0.504003531004291, -0.5362233987820239, 0.0, 0.0, 0.0,
                                            0.0010831889963740455, -0.2661307975264808, 0.2650476085301067}));
}

TEST_F(MeanCrossEntropyTest, SmoothsAsPyTorchDoes) {
  const Result result = Evaluate(logits_, labels_, {.ignore_label = -100, .label_smoothing = 0.1});
  EXPECT_NEAR(result.loss, 1.986070446567519, 1e-12);
  EXPECT_NEAR(result.gradient[5], -0.30546985481123684, 1e-12);
}

TEST_F(MeanCrossEntropyTest, IgnoresAClassAndTakesWeightsOfZeroAsPyTorchDoes) {
  const Tensor labels = Tensor::Of<int32_t>({0, 2, 1, 0}, {4});
  const Result result = Evaluate(logits_, labels, {.ignore_label = 1, .class_weights = Weights({0, 0, 3})});
  EXPECT_NEAR(result.loss, 4.0790362014041, 1e-12);
  EXPECT_EQ(result.weight, 3);
  EXPECT_THAT(result.gradient, Pointwise(DoubleNear(1e-12), {0.0, 0.0, 0.0, 0.059069757592510236, 0.9240064735078669,
                                                             -0.9830762311003772, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}));
}

TEST_F(MeanCrossEntropyTest, WithoutOptionsIsTheMean) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 5});
  const Output labels = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
  const MeanLoss mean = MeanCrossEntropy(scope_, x, labels),
                 none = MeanCrossEntropy(scope_, x, labels, {.ignore_label = -1});
  const Output expected = AddCrossEntropy(scope_, x, labels);
  Start();
  const std::vector<Feed> feeds = {{x, Random({3, 7, 5})}, {labels, Classes(21, 5).Reshaped({3, 7})}};
  const std::vector<Tensor> values = Run(feeds, {mean.loss, mean.weight, none.loss, none.weight, expected});
  EXPECT_EQ(values[0].scalar<float>(), values[4].scalar<float>());
  EXPECT_EQ(values[1].scalar<float>(), 21);
  EXPECT_NEAR(values[2].scalar<float>(), values[4].scalar<float>(), 1e-6);
  EXPECT_EQ(values[3].scalar<float>(), 21);
}

TEST_F(MeanCrossEntropyTest, WithoutExamplesThatCountIsNaNOfWeightZero) {
  const Tensor ignored = Tensor::Of<int64_t>({7, 7, 7, 7}, {4}), zeros = Tensor::Of<int64_t>({0, 1, 0, 1}, {4});
  const Result results[] = {
      Evaluate(logits_, ignored, {.ignore_label = 7}),
      Evaluate(logits_, ignored, {.ignore_label = 7, .class_weights = Weights({0.5, 2, 3})}),
      Evaluate(logits_, zeros, {.class_weights = Weights({0, 0, 3})}),
      Evaluate(Tensor::Zeros(DType::kFloat64, {0, 3}), Tensor::Zeros(DType::kInt64, {0}), {}),
      Evaluate(Tensor::Zeros(DType::kFloat64, {0, 3}), Tensor::Zeros(DType::kInt64, {0}), {.ignore_label = 7})};
  for (const Result& result : results) {
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_EQ(result.weight, 0);
    EXPECT_THAT(result.gradient, Each(0.0));
  }
}

TEST_F(MeanCrossEntropyTest, IgnoredLogitsAndWeightsMayBeNaN) {
  const Tensor logits = Tensor::Of<double>({NAN, 1, 2, 1, -2, 0.5, INFINITY, NAN, 0}, {3, 3});
  const Tensor labels = Tensor::Of<int64_t>({0, 1, 0}, {3});
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const bool weighs : {false, true}) {
      MeanCrossEntropyOptions options = {.ignore_label = 0};
      if (weighs) options.class_weights = Weights({NAN, 2, 3});
      const Result result = Evaluate(logits, labels, options, dtype);
      EXPECT_NEAR(result.loss, 3.5045969023422834, 1e-6);
      EXPECT_EQ(result.weight, weighs ? 2 : 1);
      // In bfloat16 the gradient is rounded.
      EXPECT_THAT(result.gradient, Pointwise(DoubleNear(4e-3), {0.0, 0.0, 0.0, 0.6037488961486258, -0.969941112430426,
                                                                0.3661922162818002, 0.0, 0.0, 0.0}));
      for (const size_t i : {0, 1, 2, 6, 7, 8}) EXPECT_EQ(result.gradient[i], 0);
    }
  }
}

// The gradient is that of the loss, by differences in double.
TEST_F(MeanCrossEntropyTest, GradientIsThatOfTheLoss) {
  constexpr int64_t kRows = 7, kClasses = 19;
  const Output x = ops::Placeholder(scope_, DType::kFloat64, {kRows, kClasses});
  Tensor labels(DType::kInt32, {kRows});
  for (int64_t i = 0; i < kRows; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(i % 3 == 1 ? -5 : i * 3);
  std::vector<float> weights;
  for (int i = 0; i < kClasses; ++i) weights.push_back(i == 6 ? 0 : 0.1f * static_cast<float>(i + 1));
  const MeanLoss mean =
      MeanCrossEntropy(scope_, x, ops::Const(scope_, labels), {.ignore_label = -5, .class_weights = Weights(weights)});
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(scope_, {mean.loss}, {x}));
  Start();
  Tensor at(DType::kFloat64, {kRows, kClasses});
  for (int64_t i = 0; i < at.elements(); ++i) at.data<double>()[i] = 2 * std::sin(static_cast<double>(i * i));
  const std::vector<double> gradient = Run({{x, at}}, {gradients[0]})[0].ToDoubles();
  for (int64_t i = 0; i < at.elements(); ++i) {
    constexpr double kStep = 1e-4;
    const double before = at.data<double>()[i];
    at.data<double>()[i] = before + kStep;
    const double above = Run({{x, at}}, {mean.loss})[0].scalar<double>();
    at.data<double>()[i] = before - kStep;
    const double below = Run({{x, at}}, {mean.loss})[0].scalar<double>();
    at.data<double>()[i] = before;
    EXPECT_NEAR(gradient[static_cast<size_t>(i)], (above - below) / (2 * kStep), 1e-8);
  }
}

TEST_F(MeanCrossEntropyTest, WeightsOfTowersGiveTheMeanOfAllTokens) {
  const Result first = Evaluate(logits_, Tensor::Of<int64_t>({0, 1, 2, 1}, {4}), {.ignore_label = -1}),
               second = Evaluate(logits_, Tensor::Of<int64_t>({2, -1, -1, -1}, {4}), {.ignore_label = -1});
  Tensor all(DType::kFloat64, {8, 3});
  for (int64_t i = 0; i < 24; ++i) all.data<double>()[i] = logits_.data<double>()[i % 12];
  const Result both = Evaluate(all, Tensor::Of<int64_t>({0, 1, 2, 1, 2, -1, -1, -1}, {8}), {.ignore_label = -1});
  EXPECT_EQ(both.weight, first.weight + second.weight);
  EXPECT_NEAR(both.loss, (first.loss * first.weight + second.loss * second.weight) / both.weight, 1e-12);
}

// The loss of a step, and the scale of the logits after it, with the examples dealt to towers of these sizes.
std::vector<double> ScaleAfterStep(const std::vector<int64_t>& sizes, const Tensor& x, const Tensor& labels) {
  Graph graph(BuiltinOps());
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", sizes.size())).value();
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Variable scale = GetVariable(tower, "scale", {}, ConstantInitializer(1));
    const MeanLoss mean = MeanCrossEntropy(tower, ops::Mul(tower, scale, batch["x"]), batch["labels"],
                                           {.ignore_label = -1, .class_weights = ops::Const(tower, {0.5f, 2.f, 3.f})});
    SetLossWeight(tower, mean.weight);
    return mean.loss;
  };
  const int64_t tokens = x.shape()[1];
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, {{"x", DType::kFloat32, {tokens, 3}}, {"labels", DType::kInt32, {tokens}}},
                      model, optim::GradientDescent({.learning_rate = 0.125}));
  auto session = ValueOf(Session::Create(graph, devices));
  EXPECT_TRUE(session->RunTarget(step.initialize).ok());
  std::vector<Feed> feeds;
  int64_t first = 0;
  for (size_t t = 0; t < sizes.size(); first += sizes[t++]) {
    Tensor own_x(DType::kFloat32, {sizes[t], tokens, 3}), own_labels(DType::kInt32, {sizes[t], tokens});
    std::copy_n(x.data<float>() + first * tokens * 3, own_x.elements(), own_x.data<float>());
    std::copy_n(labels.data<int32_t>() + first * tokens, own_labels.elements(), own_labels.data<int32_t>());
    feeds.push_back({step.towers[t].batch["x"], own_x});
    feeds.push_back({step.towers[t].batch["labels"], own_labels});
  }
  const auto loss = session->Run(feeds, {step.loss}, {step.update});
  EXPECT_TRUE(loss.ok()) << loss.status();
  if (!loss.ok()) return {};
  return {(*loss)[0].scalar<float>(), session->ReadVariable(graph.FindVariable("scale", 0))->scalar<float>()};
}

TEST_F(MeanCrossEntropyTest, TowersTakeTheStepOfOne) {
  const Tensor x = Random({4, 5, 3});
  Tensor labels(DType::kInt32, {4, 5});
  // A full sequence, one of two tokens, one of one and one of none.
  const int64_t lengths[] = {5, 2, 1, 0};
  for (int64_t i = 0; i < 20; ++i)
    labels.data<int32_t>()[i] = static_cast<int32_t>(i % 5 < lengths[i / 5] ? i % 3 : -1);
  const std::vector<double> one = ScaleAfterStep({4}, x, labels);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_NE(one[1], 1);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 2}, {3, 1}, {1, 1, 1, 1}}) {
    EXPECT_THAT(ScaleAfterStep(sizes, x, labels), Pointwise(DoubleNear(1e-6), one));
  }
}

TEST_F(MeanCrossEntropyTest, RefusesWeightsOfOtherShapesAndDtypes) {
  const auto error = [&](DType dtype, const Shape& shape, double smoothing) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const MeanLoss mean = MeanCrossEntropy(
        scope, ops::Const(scope, logits_), ops::Const(scope, labels_),
        {.class_weights = ops::Const(scope, Tensor::Zeros(dtype, shape)), .label_smoothing = smoothing});
    EXPECT_FALSE(mean.loss.valid() || mean.weight.valid());
    return std::string(graph.status().message());
  };
  const char kExpected[] = "class_weights must be floats of shape [3]";
  EXPECT_THAT(error(DType::kFloat32, {2}, 0), HasSubstr(kExpected));
  EXPECT_THAT(error(DType::kFloat32, {3, 1}, 0), HasSubstr(kExpected));
  EXPECT_THAT(error(DType::kInt32, {3}, 0), HasSubstr(kExpected));
  EXPECT_THAT(error(DType::kFloat32, {3}, 0.1), HasSubstr("label_smoothing and class_weights do not go together"));
}

TEST_F(MeanCrossEntropyTest, OtherLabelsFailTheStep) {
  for (const bool weighs : {false, true}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    MeanCrossEntropyOptions options = {.ignore_label = -1};
    if (weighs) options.class_weights = ops::Const(scope, {1.f, 2.f, 3.f});
    const MeanLoss mean = MeanCrossEntropy(scope, ops::Const(scope, logits_), ops::Const(scope, labels_), options);
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices_));
    EXPECT_THAT(session->Run({}, {mean.loss}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-100")));
  }
}

}  // namespace
}  // namespace belfry::models
