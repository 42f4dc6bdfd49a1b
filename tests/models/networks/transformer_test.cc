#include "models/networks/transformer.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/attention.h"
#include "models/layers/losses.h"
#include "models/layers/parameters.h"
#include "models/towers/replicate_towers.h"
#include "optim/adam.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLength = 6;
const TransformerOptions kTiny = {
    .vocabulary = 11, .length = 8, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .hidden = 32};

class TransformerTest : public ModelTest {
 protected:
  Output Tokens(int64_t length = kLength) { return ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, length}); }
  // `n` sequences that count upwards, modulo 11.
  static Tensor Counting(int64_t n, int first) {
    Tensor tokens(DType::kInt32, {n, kLength});
    for (int64_t i = 0; i < tokens.elements(); ++i) {
      tokens.data<int32_t>()[i] = static_cast<int32_t>((first + 3 * (i / kLength) + i % kLength) % 11);
    }
    return tokens;
  }
};

TEST_F(TransformerTest, IsGpt2ByDefault) {
  const Output logits = Transformer(scope_, Tokens(1024));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 1024, 50'257}));
  EXPECT_EQ(ParameterCount(scope_), 124'439'808);
  EXPECT_EQ(Find("layer11/attention/qkv/weights").shape(), Shape({768, 2304}));
}

TEST_F(TransformerTest, StartsWithSmallResiduals) {
  Transformer(scope_, Tokens(), {.vocabulary = 500, .length = 8, .layers = 2, .heads = 2, .width = 64});
  Start();
  const auto stddev = [&](const char* name) {
    double squares = 0;
    const std::vector<double> values = Value(Find(name));
    for (const double x : values) squares += x * x / static_cast<double>(values.size());
    return std::sqrt(squares);
  };
  EXPECT_NEAR(stddev("token_embedding"), 0.02, 0.001);
  EXPECT_NEAR(stddev("layer0/attention/qkv/weights"), 0.02, 0.002);
  EXPECT_NEAR(stddev("layer1/attention/output/weights"), 0.01, 0.001);
  EXPECT_NEAR(stddev("layer1/mlp/output/weights"), 0.01, 0.001);
  EXPECT_EQ(stddev("layer0/mlp/hidden/biases"), 0);
}

TEST_F(TransformerTest, LogitsDoNotDependOnLaterTokens) {
  for (const bool rotary : {false, true}) {
    TransformerOptions options = kTiny;
    options.rotary = rotary;
    options.tied = !rotary;
    const Output tokens = Tokens();
    const Output logits = Transformer(scope_.VariableScope(rotary ? "rotary" : "learned"), tokens, options);
    Start();
    Tensor other = Counting(2, 0).Clone();
    other.data<int32_t>()[4] = 9;  // of the first sequence
    const Tensor a = Run({{tokens, Counting(2, 0)}}, {logits})[0].Clone(), b = Run({{tokens, other}}, {logits})[0];
    int changed = 0;
    for (int64_t i = 0; i < a.elements(); ++i) {
      const bool before = i < 4 * 11 || i >= kLength * 11;
      const bool same = a.data<float>()[i] == b.data<float>()[i];
      EXPECT_TRUE(same || !before) << i;
      if (!same) ++changed;
    }
    EXPECT_EQ(changed, 2 * 11);
  }
}

TEST_F(TransformerTest, LengthAndBatchMayBeUnknown) {
  for (const bool rotary : {false, true}) {
    TransformerOptions options = kTiny;
    options.rotary = rotary;
    const Scope scope = scope_.VariableScope(rotary ? "rotary" : "learned");
    const Output any = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
    const Output tokens = Tokens();
    const Output free = Transformer(scope, any, options);
    const Output fixed = Transformer(scope.ReuseVariables(Reuse::kAlways), tokens, options);
    EXPECT_EQ(free.shape(), Shape({Shape::kUnknown, Shape::kUnknown, 11}));
    Start();
    const Tensor expected = Run({{tokens, Counting(3, 1)}}, {fixed})[0].Clone();
    const Tensor logits = Run({{any, Counting(3, 1)}}, {free})[0];
    EXPECT_EQ(logits.shape(), Shape({3, kLength, 11}));
    EXPECT_EQ(logits.ToDoubles(), expected.ToDoubles());
    if (!rotary) {
      const absl::Status status = session_->Run({{any, Tensor::Zeros(DType::kInt32, {2, 9})}}, {free}, {}).status();
      EXPECT_FALSE(status.ok()) << "nine tokens have no ninth position";
    }
    const Tensor one = Run({{any, Tensor::Of<int32_t>({1}, {1, 1})}}, {free})[0];
    for (int64_t i = 0; i < 11; ++i) EXPECT_NEAR(one.data<float>()[i], expected.data<float>()[i], 1e-5);
  }
}

TEST_F(TransformerTest, LearnsWithALengthThatIsUnknown) {
  for (const bool rotary : {false, true}) {
    TransformerOptions options = kTiny;
    options.rotary = rotary;
    const Shape shape = {Shape::kUnknown, Shape::kUnknown};
    const Output tokens = ops::Placeholder(scope_, DType::kInt32, shape);
    const Output next = ops::Placeholder(scope_, DType::kInt32, shape);
    const Scope scope = scope_.VariableScope(rotary ? "rotary" : "learned");
    const Output loss = AddCrossEntropy(scope, Transformer(scope, tokens, options), next);
    const Node* step = Descent(loss, 0.1f);
    Start();
    const std::vector<Feed> feeds = {{tokens, Counting(4, 0)}, {next, Counting(4, 1)}};
    const float before = Scalar(feeds, loss);
    for (int i = 0; i < 5; ++i) Run(feeds, {loss}, {step});
    EXPECT_LT(Scalar(feeds, loss), before - 0.02f);
  }
}

TEST_F(TransformerTest, LearnsToCount) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Graph graph(BuiltinOps());
    graph.set_seed(3);
    const Scope scope(graph);
    const Output tokens = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown, kLength});
    const Output next = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown, kLength});
    TransformerOptions options = kTiny;
    options.rotary = dtype == DType::kBFloat16;
    options.dtype = dtype;
    const Output loss = AddCrossEntropy(scope, Transformer(scope, tokens, options), next);
    const auto gradients = optim::ComputeGradients(scope, loss, optim::TrainableVariables(scope));
    for (const auto& each : gradients) {
      EXPECT_EQ(each.variable.dtype(), DType::kFloat32) << each.variable.name();
      EXPECT_TRUE(each.gradient.valid()) << each.variable.name();
    }
    const Node* step = optim::ApplyGradients(scope, optim::Adam({.learning_rate = 0.01}), gradients);
    const Node* initialize = InitializeVariables(scope);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices_));
    ASSERT_TRUE(session->RunTarget(initialize).ok());
    float first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto value,
                           session->Run({{tokens, Counting(4, i)}, {next, Counting(4, i + 1)}}, {loss}, {step}));
      last = value[0].scalar<float>();
      if (i == 0) first = last;
    }
    EXPECT_NEAR(first, std::log(11.0), 0.1);
    EXPECT_LT(last, 0.3);
  }
}

TEST_F(TransformerTest, ThreeTowersTrainAsOne) {
  std::vector<double> losses[2];
  const std::vector<data::Field> fields = {{"tokens", DType::kInt32, {kLength}, 11},
                                           {"targets", DType::kInt32, {kLength}, 11}};
  for (const int64_t towers : {1, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto devices, DeviceSet::Open(absl::StrCat("cpu:", towers)));
    Graph graph(BuiltinOps());
    graph.set_seed(3);
    const auto loss = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
      TransformerOptions options = kTiny;
      options.dtype = DType::kFloat64;
      AddCrossEntropy(tower, Transformer(tower, batch["tokens"], options), batch["targets"]);
      return TotalLoss(tower);
    };
    const TrainStep step = ReplicateTowers(Scope(graph), devices, fields, loss, optim::AdamW(), {});
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
    ASSERT_TRUE(session->RunTarget(step.initialize).ok());
    for (int i = 0; i < 4; ++i) {
      std::vector<Feed> feeds;
      for (int64_t t = 0; t < towers; ++t) {
        // Sequence k of the batch of six counts from i + 3 k.
        const int64_t count = 6 / towers;
        const int first = static_cast<int>(i + 3 * t * count);
        const auto of_tower = step.towers[t].batch.Feeds(
            {.fields = {Counting(count, first), Counting(count, first + 1)}, .offset = t * count, .count = count});
        feeds.insert(feeds.end(), of_tower.begin(), of_tower.end());
      }
      ASSERT_OK_AND_ASSIGN(const auto value, session->Run(feeds, {step.loss}, {step.update}));
      losses[towers == 3].push_back(value[0].ToDoubles()[0]);
    }
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-6) << i;
  EXPECT_NE(losses[0][0], losses[0][3]);
}

TEST_F(TransformerTest, LayersNameWhatDoesNotFit) {
  const auto error = [](const Shape& x, const MultiHeadAttentionOptions& options) {
    Graph graph(BuiltinOps());
    MultiHeadAttention(Scope(graph), "mix", ops::Placeholder(Scope(graph), DType::kFloat32, x), options);
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error({4, 8}, {}), HasSubstr("MultiHeadAttention 'mix' needs [N, T, C] with known C"));
  EXPECT_THAT(error({4, 3, 20}, {}), HasSubstr("cannot split 20 channels into 8 heads"));
  EXPECT_THAT(error({4, 3, 24}, {.kv_heads = 3}), HasSubstr("or these among 3 heads of keys"));
  EXPECT_EQ(error({Shape::kUnknown, Shape::kUnknown, 24}, {}), "");
  Graph graph(BuiltinOps());
  Transformer(Scope(graph), ops::Placeholder(Scope(graph), DType::kInt32, {2, 9}), kTiny);
  EXPECT_THAT(graph.status().message(), HasSubstr("has learned positions for 8 tokens"));
}

}  // namespace
}  // namespace belfry::models
