#include "models/layers/losses.h"

#include <cmath>

#include "models/layers/layers.h"
#include "models/layers/metrics.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

using Losses = ModelTest;

TEST_F(Losses, TotalLossHoldsOneTowersLossAndItsWeightDecay) {
  std::vector<Output> x, labels, cross_entropy, total;
  for (int i : {1, 10}) {
    const Scope tower = scope_.NameScope("tower_" + std::to_string(i)).Replica(i);
    x.push_back(ops::Placeholder(tower, DType::kFloat32, {Shape::kUnknown, 6}));
    labels.push_back(ops::Placeholder(tower, DType::kInt32, {Shape::kUnknown}));
    const Output logits = Dense(tower, "logits", x.back(), 3, {.weight_decay = 0.5 / i});
    cross_entropy.push_back(AddCrossEntropy(tower, logits, labels.back()));
    total.push_back(TotalLoss(tower));
  }
  Start();
  const std::vector<Feed> feeds = {
      {x[0], Random({5, 6})}, {labels[0], Classes(5, 3)}, {x[1], Random({4, 6})}, {labels[1], Classes(4, 3)}};
  const std::vector<Tensor> result = Run(feeds, {cross_entropy[0], total[0], cross_entropy[1], total[1]});
  for (int i = 0; i < 2; ++i) {
    const int replica = i == 0 ? 1 : 10;
    double squares = 0;
    for (double w : Value(graph_.FindVariable("logits/weights", replica))) squares += w * w;
    EXPECT_GT(squares, 0);
    EXPECT_NEAR(result[2 * i + 1].scalar<float>(), result[2 * i].scalar<float>() + 0.5 / replica * squares / 2, 1e-5);
  }
}

// Values of PyTorch 2.15:
//   x = torch.sin(torch.arange(12.)).reshape(4, 3) * 3
//   torch.nn.functional.cross_entropy(x, torch.tensor([0, 2, 1, 1]), label_smoothing=0.15)
TEST_F(Losses, SmoothedLabels) {
  Tensor x(DType::kFloat32, {4, 3});
  for (int i = 0; i < 12; ++i) x.data<float>()[i] = 3 * std::sin(static_cast<float>(i));
  const Output loss = AddCrossEntropy(scope_, ops::Const(scope_, x), ops::Const(scope_, {0, 2, 1, 1}), 0.15);
  Start();
  EXPECT_NEAR(Run({}, {loss})[0].scalar<float>(), 2.64537477, 1e-5);
}

// The mean of the two cross-entropies by the weights is that of the targets mixed by them.
TEST_F(Losses, MixedLabels) {
  const Output logits = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 2, 3});
  const MixedLabels labels = {ops::Const(scope_, {0, 1, 2, 2}, {2, 2}), ops::Const(scope_, {1, 1, 0, 2}, {2, 2}),
                              ops::Const(scope_, {0.25f, 0.75f})};
  const Output loss = AddCrossEntropy(scope_, logits, labels);
  Start();
  const Tensor x = Random({2, 2, 3});
  const int first[] = {0, 1, 2, 2}, second[] = {1, 1, 0, 2};
  double expected = 0;
  for (int i = 0; i < 4; ++i) {
    const float* const row = x.data<float>() + 3 * i;
    const double sum = std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2]), weight = i < 2 ? 0.25 : 0.75;
    double target[3] = {};
    target[first[i]] += weight;
    target[second[i]] += 1 - weight;
    for (int c = 0; c < 3; ++c) expected -= target[c] * std::log(std::exp(row[c]) / sum) / 4;
  }
  EXPECT_NEAR(Run({{logits, x}}, {loss})[0].scalar<float>(), expected, 1e-5);
}

TEST_F(Losses, GradientOfWeightDecayIsTheWeight) {
  const Variable w = GetVariable(scope_, "w", {3, 5}, NormalInitializer(1));
  AddWeightDecay(scope_, w, 0.25);
  AddWeightDecay(scope_, w, 0);
  EXPECT_EQ(graph_.GetCollection(kLosses).size(), 1u);
  const auto gradients = optim::ComputeGradients(scope_, TotalLoss(scope_), {w});
  ASSERT_EQ(gradients.size(), 1u) << graph_.status();
  Start();
  const std::vector<double> gradient = Run({}, {gradients[0].gradient})[0].ToDoubles(), value = Value(w);
  for (size_t i = 0; i < value.size(); ++i) EXPECT_NEAR(gradient[i], 0.25 * value[i], 1e-6);
}

// 0.1 / 2 * 3 * 2^2, whatever the number of calls: the decay is of the weights.
TEST_F(Losses, ALayerThatIsCalledSeveralTimesDecaysOnce) {
  const Output x = ops::Const(scope_, {1.f, 1.f, 1.f}, {1, 3});
  for (int i = 0; i < 3; ++i) {
    Dense(scope_.ReuseVariables(i == 0 ? Reuse::kNever : Reuse::kAlways), "d", x, 1,
          {.weights = ConstantInitializer(2), .weight_decay = 0.1});
  }
  AddWeightDecay(scope_, graph_.FindVariable("d/weights", 0), 0.2);  // another term
  const Output loss = TotalLoss(scope_);
  ASSERT_TRUE(loss.valid()) << graph_.status();
  Start();
  EXPECT_NEAR(Run({}, {loss})[0].scalar<float>(), 0.6 + 1.2, 1e-6);
}

TEST_F(Losses, NothingToAddUpIsAnError) {
  const Scope tower = scope_.NameScope("tower_1");
  scope_.NameScope("tower_10").AddToCollection(kLosses, ops::Const(scope_.NameScope("tower_10/"), 1.0f));
  EXPECT_FALSE(TotalLoss(tower).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("holds nothing in the scope 'tower_1/'"));
}

TEST_F(Losses, AVectorIsAnError) {
  scope_.AddToCollection(kLosses, ops::Const(scope_, {1.f, 2.f}));
  EXPECT_FALSE(TotalLoss(scope_).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("is not a scalar but [2]"));
}

TEST_F(Losses, MetricsOfKnownLogits) {
  const Output logits = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4}), labels = Labels();
  const Output correct = Correct(scope_, logits, labels), accuracy = Accuracy(scope_, logits, labels),
               top2 = TopKAccuracy(scope_, logits, labels, 2);
  EXPECT_EQ(correct.shape(), Shape({Shape::kUnknown}));
  Start();
  const Tensor values = Tensor::Of<float>({1, 2, 3, 4,   // right
                                           4, 3, 2, 1,   // second
                                           1, 2, 4, 3,   // third
                                           5, 5, 5, 5,   // a tie: the first counts
                                           5, 5, 5, 5},  // the same tie
                                          {5, 4});
  const std::vector<Feed> feeds = {{logits, values}, {labels, Tensor::Of<int32_t>({3, 1, 1, 0, 2})}};
  EXPECT_EQ(Run(feeds, {correct})[0].ToDoubles(), (std::vector<double>{1, 0, 0, 1, 0}));
  EXPECT_FLOAT_EQ(Scalar(feeds, accuracy), 0.4f);
  EXPECT_FLOAT_EQ(Scalar(feeds, top2), 0.8f);
  EXPECT_TRUE(std::isnan(Scalar({{logits, Random({0, 4})}, {labels, Classes(0, 4)}}, accuracy)));
}

}  // namespace
}  // namespace belfry::models
