#include "models/layers/recurrent.h"

#include <gmock/gmock.h>

#include "models/layers/layers.h"
#include "models/layers/losses.h"
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

TEST_F(RecurrentLayers, NameWhatDoesNotFit) {
  const auto error = [](const Shape& x, int64_t units) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(Lstm(Scope(graph), "memory", ops::Placeholder(Scope(graph), DType::kFloat32, x), units).y.valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error({4, 8}, 2), HasSubstr("Lstm 'memory' needs [N, T, C] with known C"));
  EXPECT_THAT(error({4, 8, Shape::kUnknown}, 2), HasSubstr("needs [N, T, C] with known C"));
  EXPECT_THAT(error({4, 8, 3}, 0), HasSubstr("Lstm 'memory' has 0 units"));
}

}  // namespace
}  // namespace belfry::models
