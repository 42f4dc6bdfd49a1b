#include "models/layers/recurrent.h"

#include "framework/graph/gradients.h"
#include "models/layers/attention.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "ops/sequence.h"
#include "optim/adam.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RecurrentLayers : public ModelTest {};

TEST_F(RecurrentLayers, HaveTheVariablesOfTheirGates) {
  const Output x = ops::Placeholder(scope_, DType::kBFloat16, {Shape::kUnknown, Shape::kUnknown, 3});
  const ops::LstmOutputs lstm = Lstm(scope_, "lstm", x, 2);
  const ops::GruOutputs gru = Gru(scope_, "gru", lstm.y, 5);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_THAT(VariableNames(), ElementsAre("lstm/weights", "lstm/recurrent_weights", "lstm/biases", "gru/weights",
                                           "gru/recurrent_weights", "gru/biases", "gru/recurrent_biases"));
  EXPECT_EQ(Find("lstm/weights").shape(), Shape({3, 8}));
  EXPECT_EQ(Find("gru/recurrent_weights").shape(), Shape({5, 15}));
  EXPECT_EQ(Find("gru/weights").dtype(), DType::kFloat32);
  EXPECT_EQ(gru.y.dtype(), DType::kBFloat16);
  EXPECT_EQ(gru.y.shape(), Shape({Shape::kUnknown, Shape::kUnknown, 5}));
  EXPECT_EQ(lstm.cell.shape(), Shape({Shape::kUnknown, 2}));
  Start();
  EXPECT_EQ(Value(Find("lstm/biases")), (std::vector<double>{0, 0, 1, 1, 0, 0, 0, 0}));
}

// The class of a sequence is its first element, of which nothing is left at the end but the state.
TEST_F(RecurrentLayers, LearnToRemember) {
  Tensor sequences = Random({40, 8, 3});
  const Tensor labels = Classes(40, 2);
  for (int64_t i = 0; i < 40; ++i) {
    sequences.data<float>()[i * 24] = static_cast<float>(4 * labels.data<int32_t>()[i] - 2);
  }
  for (const bool gru : {false, true}) {
    const Scope scope = scope_.VariableScope(gru ? "gru" : "lstm");
    const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 3}), y = Labels();
    const Output last = gru ? Gru(scope, "cells", x, 8).hidden : Lstm(scope, "cells", x, 8).hidden;
    const Output loss = AddCrossEntropy(scope, Dense(scope, "logits", last, 2), y);
    const Node* step = optim::ApplyGradients(scope, optim::Adam({.learning_rate = 0.03}),
                                             optim::ComputeGradients(scope, loss, optim::TrainableVariables(scope)));
    Start();
    const std::vector<Feed> feeds = {{x, sequences}, {y, labels}};
    for (int i = 0; i < 60; ++i) Run(feeds, {loss}, {step});
    EXPECT_LT(Scalar(feeds, loss), 0.1f) << (gru ? "GRU" : "LSTM");
  }
}

Tensor Sines(const Shape& shape, double step) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  }
  return x;
}

// The values of torch.nn.LSTM(2, 2, num_layers=2, batch_first=True, bidirectional=True).double() and of nn.GRU for a
// packed sequence (pack_padded_sequence), with biases of 0, and weights sin(s i) and recurrent weights sin((s + 0.4)
// i), transposed, for s = 1.3 + layer + 2 direction.
TEST_F(RecurrentLayers, StacksHaveTheValuesOfPyTorch) {
  const Output x = ops::Const(scope_, Sines({2, 3, 2}, 0.9)), lengths = ops::Const(scope_, {2, 3});
  RecurrentStackOptions options{.layers = 2, .bidirectional = true, .lengths = lengths, .forget_bias = 0};
  const RecurrentStackOutputs lstm = LstmStack(scope_, "lstm", x, 2, options),
                              gru = GruStack(scope_, "gru", x, 2, options);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(lstm.cells.size(), 2u);
  EXPECT_TRUE(gru.cells.empty());
  Start();
  for (const Variable& variable : graph_.variables()) {
    const std::string& name = variable.name();
    if (name.find("biases") != std::string::npos) continue;
    const double step = 1.3 + (name.find("layer_1") != std::string::npos ? 1 : 0) +
                        (name.find("backward") != std::string::npos ? 2 : 0) +
                        (name.find("recurrent") != std::string::npos ? 0.4 : 0);
    ASSERT_TRUE(session_->WriteVariable(variable, Sines(variable.shape(), step)).ok());
  }
  const std::vector<std::vector<double>> expected = {
      {0.047618, -0.059452, -0.181903, 0.077039, 0.023395, -0.002177, -0.068112, 0.049688,
       0,        0,         0,         0,        0.032431, -0.044856, -0.076105, 0.048132,
       0.043773, -0.054862, -0.085464, 0.033524, 0.005027, 0.010700,  0.076448,  -0.066890},
      {-0.179675, -0.124286, 0.431657, -0.102496, -0.191237, 0.098063, 0.076796, 0.058804},
      {0.023395, -0.002177, -0.181903, 0.077039, 0.005027, 0.010700, -0.076105, 0.048132},
      {0.051253, -0.004058, -0.336507, 0.235504, 0.010885, 0.020669, -0.147228, 0.106374},
      {-0.447005, -0.019495, -0.386690, 0.288084, -0.486904, 0.011363,  -0.217227, 0.092031,
       0,         0,         0,         0,        0.056450,  -0.126423, -0.276305, 0.269291,
       -0.556321, -0.108977, -0.260325, 0.162271, -0.279297, -0.101142, -0.026144, -0.033602},
      {-0.138767, 0.558840, 0.353639, -0.651622, -0.103436, 0.258986, 0.040039, 0.009107},
      {-0.486904, 0.011363, -0.386690, 0.288084, -0.279297, -0.101142, -0.276305, 0.269291}};
  const auto values =
      Run({}, {lstm.y, lstm.hidden[0], lstm.hidden[1], lstm.cells[1], gru.y, gru.hidden[0], gru.hidden[1]});
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(values[i].ToDoubles(), testing::Pointwise(testing::DoubleNear(2e-6), expected[i])) << i;
  }
}

TEST_F(RecurrentLayers, StacksWithoutLengthsAreThoseOfWholeSequences) {
  const Output x = ops::Const(scope_, Random({3, 4, 2}));
  const RecurrentStackOptions options{.layers = 2, .bidirectional = true};
  RecurrentStackOptions whole = options;
  whole.lengths = ops::Fill(scope_, {3}, 4, DType::kInt32);
  const RecurrentStackOutputs a = LstmStack(scope_, "lstm", x, 5, options);
  const RecurrentStackOutputs b = LstmStack(scope_.ReuseVariables(Reuse::kAlways), "lstm", x, 5, whole);
  EXPECT_EQ(a.y.shape(), Shape({3, 4, 10}));
  EXPECT_EQ(a.hidden[0].shape(), Shape({3, 10}));
  Start();
  const auto values = Run({}, {a.y, b.y, a.hidden[1], b.hidden[1]});
  EXPECT_EQ(values[0].ToDoubles(), values[1].ToDoubles());
  EXPECT_EQ(values[2].ToDoubles(), values[3].ToDoubles());
}

TEST_F(RecurrentLayers, DropoutIsBetweenLayersInTrainingOnly) {
  const Output x = ops::Const(scope_, Random({20, 4, 2}));
  RecurrentStackOptions options{.layers = 2, .dropout = 0.5};
  const RecurrentStackOutputs training = GruStack(scope_, "gru", x, 6, options);
  options.training = false;
  const Scope again = scope_.ReuseVariables(Reuse::kAlways);
  const RecurrentStackOutputs evaluating = GruStack(again, "gru", x, 6, options);
  options.dropout = 0;
  const RecurrentStackOutputs without = GruStack(again, "gru", x, 6, options);
  const std::vector<Output> all = {training.hidden[0], without.hidden[0], evaluating.y, without.y, training.y};
  Start();
  const auto values = Run({}, all), next = Run({}, all);
  Start();
  const auto repeated = Run({}, all);
  EXPECT_EQ(values[0].ToDoubles(), values[1].ToDoubles());
  EXPECT_EQ(values[2].ToDoubles(), values[3].ToDoubles());
  EXPECT_NE(values[4].ToDoubles(), values[3].ToDoubles());
  EXPECT_NE(values[4].ToDoubles(), next[4].ToDoubles());
  EXPECT_EQ(values[4].ToDoubles(), repeated[4].ToDoubles());
}

TEST_F(RecurrentLayers, PoolOverTheStepsOfEachSequence) {
  Tensor x = Sines({3, 4, 2}, 0.9);
  for (const int64_t padding : {2, 3}) std::fill_n(x.data<float>() + padding * 2, 2, static_cast<float>(NAN));
  const Output input = ops::Const(scope_, x), lengths = ops::Const(scope_, {2, 0, 4});
  const Output mean = MeanOverSteps(scope_, input, lengths), max = MaxOverSteps(scope_, input, lengths);
  ASSERT_OK_AND_ASSIGN(const auto gradients,
                       Gradients(scope_, {ops::Add(scope_, ops::Sum(scope_, mean), ops::Sum(scope_, max))}, {input}));
  Start();
  const auto values = Run({}, {mean, max, gradients[0]});
  const float* const in = x.data<float>();
  std::vector<double> means(6), maxima(6), slopes(24);
  for (const auto& [n, steps] : {std::pair(0, 2), std::pair(2, 4)}) {
    for (int c = 0; c < 2; ++c) {
      int best = 0;
      for (int t = 0; t < steps; ++t) {
        const int at = (n * 4 + t) * 2 + c;
        means[n * 2 + c] += in[at] / steps;
        slopes[at] += 1.0 / steps;
        if (in[at] > in[(n * 4 + best) * 2 + c]) best = t;
      }
      maxima[n * 2 + c] = in[(n * 4 + best) * 2 + c];
      slopes[(n * 4 + best) * 2 + c] += 1;
    }
  }
  EXPECT_THAT(values[0].ToDoubles(), testing::Pointwise(testing::DoubleNear(1e-6), means));
  EXPECT_EQ(values[1].ToDoubles(), maxima);
  EXPECT_THAT(values[2].ToDoubles(), testing::Pointwise(testing::DoubleNear(1e-6), slopes));
}

// A query sees the keys of its sequence only.
TEST_F(RecurrentLayers, ASequenceMaskHidesThePaddingFromAttention) {
  const Output x = ops::Const(scope_, Random({2, 5, 8})), lengths = ops::Const(scope_, {3, 5});
  const Output mask = ops::Reshape(scope_, ops::SequenceMask(scope_, x, lengths), {2, 1, 1, 5});
  const Output padded = MultiHeadAttention(scope_, "attention", x, {.heads = 2, .mask = mask});
  const Output first = ops::Slice(scope_, x, {0, 0, 0}, {1, 3, 8});
  const Output alone = MultiHeadAttention(scope_.ReuseVariables(Reuse::kAlways), "attention", first, {.heads = 2});
  const Output same = ops::Slice(scope_, padded, {0, 0, 0}, {1, 3, 8});
  Start();
  const auto values = Run({}, {same, alone});
  EXPECT_THAT(values[0].ToDoubles(), testing::Pointwise(testing::DoubleNear(1e-5), values[1].ToDoubles()));
}

TEST_F(RecurrentLayers, NameWhatDoesNotFit) {
  const auto error = [](const Shape& x, int64_t units) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(Lstm(Scope(graph), "memory", ops::Placeholder(Scope(graph), DType::kFloat32, x), units).y.valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error({4, 8}, 2), HasSubstr("Lstm 'memory' needs [N, T, C] with known C"));
  EXPECT_THAT(error({4, 8, Shape::kUnknown}, 2), HasSubstr("needs [N, T, C] with known C"));
  EXPECT_THAT(error({4, 8, 3}, 0), HasSubstr("Lstm 'memory' has 0 units"));
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {4, 8, 3});
  EXPECT_FALSE(GruStack(scope_, "memory", x, 2, {.layers = 0}).y.valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("GruStack 'memory' has 0 layers"));
}

}  // namespace
}  // namespace belfry::models
