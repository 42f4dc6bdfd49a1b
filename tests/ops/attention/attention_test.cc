// Attention beside the ops that it replaces, and on inputs that the cases do not cover.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/attention.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/framework/base/same_bits.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/op_case_fixture.h"
#include "tests/ops/harness/special_values.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

Tensor Waves(const Shape& shape, double step) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(2 * std::sin(step * static_cast<double>(i)));
  }
  return x;
}

class AttentionTest : public testing::Test {
 protected:
  Output Fed(const Tensor& value) {
    const Output x = Placeholder(scope_, value.dtype(), value.shape());
    feeds_.emplace_back(x, value);
    return x;
  }
  // The outputs, then the gradients of y with respect to `xs` for a given gradient of y.
  std::vector<Tensor> ValueAndGradients(Output y, const std::vector<Output>& xs) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    const auto dx = Gradients(scope_, {y}, xs, {.grad_ys = {Const(scope_, Waves(y.shape(), 0.7))}});
    EXPECT_TRUE(dx.ok()) << dx.status();
    std::vector<Output> fetches = {y};
    if (dx.ok()) fetches.insert(fetches.end(), dx->begin(), dx->end());
    return ValueOf(harness::Evaluate(fetches, feeds_));
  }

  Graph graph_{BuiltinOps()};
  Scope scope_{graph_};
  FeedList feeds_;
};

TEST_F(AttentionTest, EqualsSoftmaxBetweenProductsAndItsGradients) {
  constexpr int64_t kLength = 75, kWidth = 10;
  const Shape shape = {2, kLength, 3, kWidth};
  const Output q = Fed(Waves(shape, 0.9)), k = Fed(Waves(shape, 1.3)), v = Fed(Waves(shape, 1.7));
  const Output y = Attention(scope_, q, k, v, {.causal = true});
  const auto heads_first = [&](Output x) { return Transpose(scope_, x, {0, 2, 1, 3}); };
  Tensor hidden(DType::kFloat32, {kLength, kLength});
  for (int64_t i = 0; i < hidden.elements(); ++i) hidden.data<float>()[i] = i % kLength > i / kLength ? -1e30f : 0.f;
  const Output scores = MatMul(scope_, heads_first(q), heads_first(k), {.transpose_b = true});
  const Output weights =
      Softmax(scope_, Add(scope_, Scale(scope_, scores, 1 / std::sqrt(10.0)), Const(scope_, hidden)));
  const Output expected = heads_first(MatMul(scope_, weights, heads_first(v)));
  const auto ours = ValueAndGradients(y, {q, k, v}), theirs = ValueAndGradients(expected, {q, k, v});
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    harness::ExpectClose(harness::ToArray(ours[i]), harness::ToArray(theirs[i]), 2e-6, i == 0 ? "y" : "gradient");
  }
}

TEST_F(AttentionTest, SelfAttentionHasTheBitsOfAttention) {
  const Output qkv = Fed(Waves({2, 70, 8, 20}, 0.31));
  const std::vector<Output> parts = Split(scope_, qkv, 2, {4, 2, 2});
  const auto packed = ValueAndGradients(SelfAttention(scope_, qkv, 2, {.causal = true}), {qkv});
  const auto apart = ValueAndGradients(Attention(scope_, parts[0], parts[1], parts[2], {.causal = true}), {qkv});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(SameBits(packed[i], apart[i])) << i;
}

TEST_F(AttentionTest, AQueryThatSeesNothingGivesZeroAndGetsNoGradient) {
  const Shape shape = {1, 2, 1, 3};
  const Output q = Fed(Waves(shape, 0.9)), k = Fed(Waves(shape, 1.3)), v = Fed(Waves(shape, 1.7));
  const Output mask = Const(scope_, Tensor::Of<bool>({false, false, true, false}, {2, 2}));
  const auto values = ValueAndGradients(Attention(scope_, q, k, v, {.mask = mask}), {q, k, v});
  const std::vector<double> y = values[0].ToDoubles(), of_v = Waves(shape, 1.7).ToDoubles();
  const std::vector<double> dq = values[1].ToDoubles(), dv = values[3].ToDoubles();
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(y[c], 0);
    EXPECT_FLOAT_EQ(static_cast<float>(y[3 + c]), static_cast<float>(of_v[c]));
    EXPECT_EQ(dq[c], 0);
    EXPECT_EQ(dv[3 + c], 0) << "of a key that no query sees";
  }
}

// One query, two keys, and v = {1, 10}, {3, 30}.
TEST_F(AttentionTest, FiniteMasksDoNotHide) {
  const Output q = Fed(Waves({1, 1, 1, 2}, 0.9)), k = Fed(Waves({1, 2, 1, 2}, 1.3));
  const Output v = Fed(Tensor::Of<float>({1, 10, 3, 30}, {1, 2, 1, 2}));
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const auto with = [&](float first, float second) {
    const Output mask = Const(scope_, Tensor::Of<float>({first, second}, {1, 2}));
    return harness::Evaluate({Attention(scope_, q, k, v, {.mask = mask})}, feeds_)->front().ToDoubles();
  };
  EXPECT_THAT(with(kLowest, kLowest), testing::ElementsAre(2, 20));
  EXPECT_THAT(with(-kLowest, -kLowest), testing::ElementsAre(2, 20));
  EXPECT_THAT(with(kLowest, -kInfinity), testing::ElementsAre(1, 10));
  EXPECT_THAT(with(0, kLowest), testing::ElementsAre(1, 10));
  EXPECT_THAT(with(-kInfinity, -kInfinity), testing::ElementsAre(0, 0));
}

// The log-sum-exp of such scores rounds the number of keys away, so the gradient takes their sum again. With equal
// rows of k and no other scores, softmax of the same mask is the same for all keys that are not hidden.
TEST_F(AttentionTest, GradientsOfScoresThatAreAllMaskedByTheSame) {
  constexpr int64_t kQueriesHere = 70, kKeysHere = 150;
  for (const float low : {-1e5f, -1e9f, -1e30f, std::numeric_limits<float>::lowest()}) {
    const Output q = Fed(Tensor::Zeros(DType::kFloat32, {1, kQueriesHere, 2, 3}));
    const Output k = Fed(Waves({1, kKeysHere, 2, 3}, 1.3)), v = Fed(Waves({1, kKeysHere, 2, 3}, 1.7));
    Tensor mask(DType::kFloat32, {kQueriesHere, kKeysHere}), zero(DType::kFloat32, {kQueriesHere, kKeysHere});
    for (int64_t i = 0; i < mask.elements(); ++i) {
      const bool hidden = i % 5 == 3, masked = i / kKeysHere % 2 == 1;  // every other query is masked as a whole
      zero.data<float>()[i] = hidden ? -kInfinity : 0;
      mask.data<float>()[i] = hidden ? -kInfinity : masked ? low : 0;
    }
    const auto with = [&](const Tensor& m) {
      return ValueAndGradients(Attention(scope_, q, k, v, {.mask = Const(scope_, m)}), {q, k, v});
    };
    const auto found = with(mask), expected = with(zero);
    for (size_t i = 0; i < found.size(); ++i) {
      harness::ExpectClose(harness::ToArray(found[i]), harness::ToArray(expected[i]), 3e-6,
                           absl::StrCat(low, ", value ", i));
    }
  }
}

TEST_F(AttentionTest, LargeScoresDoNotOverflow) {
  Tensor large(DType::kFloat32, {1, 2, 1, 2});
  for (int64_t i = 0; i < 4; ++i) large.data<float>()[i] = i < 2 ? 1e4f : -1e4f;
  const Output q = Fed(large), v = Fed(Waves({1, 2, 1, 2}, 1.7));
  const auto values = ValueAndGradients(Attention(scope_, q, q, v), {q, v});
  EXPECT_EQ(values[0].ToDoubles(), Waves({1, 2, 1, 2}, 1.7).ToDoubles());
  for (const Tensor& value : values) {
    for (const double x : value.ToDoubles()) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST_F(AttentionTest, NaNStaysInTheQueriesThatSeeIt) {
  for (const double bad : {kNaN, kInfinity}) {
    for (const bool in_query : {true, false}) {
      Tensor q = Waves({1, 70, 1, 3}, 0.9), k = Waves({1, 70, 1, 3}, 1.3);
      (in_query ? q : k).data<float>()[65 * 3] = static_cast<float>(bad);
      const Output v = Const(scope_, Waves({1, 70, 1, 3}, 1.7));
      const auto y =
          harness::Evaluate({Attention(scope_, Const(scope_, q), Const(scope_, k), v, {.causal = true})}, {});
      ASSERT_TRUE(y.ok()) << y.status();
      const std::vector<double> values = (*y)[0].ToDoubles();
      for (size_t i = 0; i < 70; ++i) {
        const bool nan = std::isnan(values[i * 3]);
        if (in_query) {
          EXPECT_EQ(nan, i == 65) << i;
        } else if (i < 64) {
          EXPECT_FALSE(nan) << i;
        }
      }
      // A key with an infinity has the score -infinity where the query's element is negative.
      EXPECT_TRUE(std::isnan(values[65 * 3]) || (!in_query && !std::isnan(bad)));
    }
  }
}

// As the end of a cache does: a mask without an axis of queries.
TEST_F(AttentionTest, WhatAMaskHidesFromAllQueriesIsWithoutEffect) {
  constexpr int64_t kKeys = 150;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const int64_t queries : {int64_t{1}, int64_t{70}}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), ", ", queries, " queries"));
      const auto attend = [&](float behind) {
        Tensor k = Waves({2, kKeys, 2, 9}, 1.3), v = Waves({2, kKeys, 2, 9}, 1.7), sees(DType::kBool, {2, 1, 1, kKeys});
        for (int64_t i = 0; i < 2 * kKeys; ++i) {
          sees.data<bool>()[i] = i % kKeys < (i < kKeys ? 70 : 3) || i % kKeys == kKeys - 1;
          if (sees.data<bool>()[i]) continue;
          std::fill_n(k.data<float>() + i * 18, 18, behind);
          std::fill_n(v.data<float>() + i * 18, 18, behind);
        }
        const auto cast = [&](const Tensor& x) { return Cast(scope_, Const(scope_, x), dtype); };
        const Output y =
            Attention(scope_, cast(Waves({2, queries, 4, 9}, 0.9)), cast(k), cast(v), {.mask = Const(scope_, sees)});
        return ValueOf(harness::Evaluate({y}, {}))[0];
      };
      const Tensor expected = attend(0);
      for (const float behind : {kInfinity, -kInfinity, kNaN})
        EXPECT_TRUE(SameBits(attend(behind), expected)) << behind;
    }
  }
}

TEST_F(AttentionTest, NamesWhatDoesNotFit) {
  const auto error = [](Shape q, Shape k, Shape mask, double scale) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const auto in = [&](const Shape& shape) { return Placeholder(scope, DType::kFloat32, shape); };
    AttentionOptions options{.scale = scale};
    if (mask.rank() > 0) options.mask = in(mask);
    Attention(scope, in(q), in(k), in(k), options);
    return std::string(graph.status().message());
  };
  EXPECT_EQ(error({2, 5, 4, 8}, {2, 6, 2, 8}, {5, 6}, 0), "");
  EXPECT_THAT(error({2, 5, 4, 8}, {2, 6, 3, 8}, {}, 0),
              HasSubstr("the number of heads of queries, 4, must be a multiple of that of keys, 3"));
  EXPECT_THAT(error({2, 5, 4, 8}, {2, 6, 4, 7}, {}, 0), HasSubstr("needs q [N, T, H, D] and k and v [N, S, G, D]"));
  EXPECT_THAT(error({2, 5, 8}, {2, 6, 8}, {}, 0), HasSubstr("needs q [N, T, H, D]"));
  EXPECT_THAT(error({2, 5, 4, 0}, {2, 6, 4, 0}, {}, 0), HasSubstr("has no elements"));
  EXPECT_THAT(error({2, 5, 4, 8}, {2, 6, 4, 8}, {6, 5}, 0),
              HasSubstr("the mask [6,5] does not broadcast to the scores' shape [2,4,5,6]"));
  EXPECT_THAT(error({2, 5, 4, 8}, {2, 6, 4, 8}, {}, -1), HasSubstr("scale must be finite and not negative, but is -1"));
  Graph graph(BuiltinOps());
  SelfAttention(Scope(graph), Placeholder(Scope(graph), DType::kFloat32, {2, 5, 4, 8}), 2);
  EXPECT_THAT(graph.status().message(), HasSubstr("has no heads for queries beside two times kv_heads, 2"));
}

TEST(Rotary, KeepsScoresThatDependOnTheDistanceOnly) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Tensor a = Waves({1, 1, 1, 8}, 0.4), b = Waves({1, 1, 1, 8}, 1.1);
  std::vector<double> scores;
  for (const int64_t offset : {0, 5, 1000}) {
    const Output rotated_a = Rotary(scope, Const(scope, a), {.offset = offset + 3});
    const Output rotated_b = Rotary(scope, Const(scope, b), {.offset = offset});
    ASSERT_OK_AND_ASSIGN(const auto score, harness::Evaluate({Sum(scope, Mul(scope, rotated_a, rotated_b))}, {}));
    scores.push_back(score[0].ToDoubles()[0]);
  }
  EXPECT_NEAR(scores[1], scores[0], 1e-5);
  EXPECT_NEAR(scores[2], scores[0], 1e-5);
}

TEST(Rotary, NamesWhatDoesNotFit) {
  const auto error = [](const Shape& x, const RotaryOptions& options) {
    Graph graph(BuiltinOps());
    Rotary(Scope(graph), Placeholder(Scope(graph), DType::kFloat32, x), options);
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error({2, 3, 4}, {}), HasSubstr("needs x [N, T, H, D], but was given [2,3,4]"));
  EXPECT_THAT(error({2, 3, 4, 5}, {}), HasSubstr("pairs of elements are rotated, but the width is 5"));
  EXPECT_THAT(error({2, 3, 4, 6}, {.width = 8}), HasSubstr("do not fit in x [2,3,4,6]"));
  EXPECT_THAT(error({2, 3, 4, 6}, {.heads = 5}), HasSubstr("5 heads of which 0 elements are rotated do not fit"));
  EXPECT_THAT(error({2, 3, 4, 6}, {.base = 0}), HasSubstr("base must be positive and finite, but is 0"));
}

}  // namespace
}  // namespace belfry::ops
