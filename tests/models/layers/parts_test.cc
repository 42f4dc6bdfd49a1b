// Parts of networks that are made of other layers and ops.
#include <cmath>
#include <vector>

#include "framework/graph/gradients.h"
#include "models/layers/attention.h"
#include "models/layers/recurrent.h"
#include "ops/formula.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Parts = ModelTest;

TEST_F(Parts, TakeAlongTakesFromAnyAxis) {
  const Tensor x = Random({3, 4, 2});
  Tensor at(DType::kInt64, {3, 5, 2}), last(DType::kInt32, {3, 4, 1});
  for (int64_t i = 0; i < at.elements(); ++i) at.data<int64_t>()[i] = i * 7 % 4;
  for (int64_t i = 0; i < last.elements(); ++i) last.data<int32_t>()[i] = static_cast<int32_t>(i % 3 == 0);
  const Output in = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 2});
  const Output y = ops::TakeAlong(scope_, in, ops::Const(scope_, at), 1);
  const Output z = ops::TakeAlong(scope_, in, ops::Const(scope_, last), -1);
  ASSERT_OK_AND_ASSIGN(const auto slopes, Gradients(scope_, {Sum(y)}, {in}));
  Start();
  const auto values = Run({{in, x}}, {y, z, slopes[0]});
  std::vector<float> expected, of_last;
  std::vector<double> counts(24);
  for (int n = 0; n < 3; ++n) {
    for (int i = 0; i < 5; ++i) {
      for (int d = 0; d < 2; ++d) {
        const int64_t from = (n * 4 + at.data<int64_t>()[(n * 5 + i) * 2 + d]) * 2 + d;
        expected.push_back(x.data<float>()[from]);
        counts[from] += 1;
      }
    }
    for (int t = 0; t < 4; ++t) of_last.push_back(x.data<float>()[(n * 4 + t) * 2 + last.data<int32_t>()[n * 4 + t]]);
  }
  EXPECT_THAT(values[0].span<float>(), testing::ElementsAreArray(expected));
  EXPECT_THAT(values[1].span<float>(), testing::ElementsAreArray(of_last));
  EXPECT_EQ(values[2].ToDoubles(), counts);
}

TEST_F(Parts, TakeAlongNamesWhatDoesNotFit) {
  ops::TakeAlong(scope_, ops::Const(scope_, Random({3, 4})), ops::Const(scope_, {0, 1}), 1);
  EXPECT_THAT(graph_.status().message(), HasSubstr("which is [3,4], with indices [2]; expected [3,?]"));
}

TEST_F(Parts, CircularPadGoesOnAtTheOtherEnd) {
  const Output ring = ops::CircularPad(scope_, ops::Const(scope_, {1.0f, 2.0f, 3.0f}), {{2, 3}});
  const Output torus =
      ops::CircularPad(scope_, ops::Const(scope_, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}), {{1, 0}, {0, 1}});
  Start();
  const auto values = Run({}, {ring, torus});
  EXPECT_THAT(values[0].span<float>(), ElementsAre(2, 3, 1, 2, 3, 1, 2, 3));
  EXPECT_THAT(values[1].span<float>(), ElementsAre(4, 5, 6, 4, 1, 2, 3, 1, 4, 5, 6, 4));
  ops::CircularPad(scope_, ops::Const(scope_, {1.0f, 2.0f, 3.0f}), {{4, 0}});
  EXPECT_THAT(graph_.status().message(), HasSubstr("which is [3], by [4+0]; expected a padding for each axis"));
}

TEST_F(Parts, RoundThroughPassesItsGradient) {
  const Output x = ops::Const(scope_, {-1.5f, 0.4f, 2.6f, INFINITY});
  const Output y = RoundThrough(x);
  ASSERT_OK_AND_ASSIGN(const auto slopes, Gradients(scope_, {Sum(Square(y - 1))}, {x}));
  Start();
  const auto values = Run({}, {y, slopes[0]});
  EXPECT_THAT(values[0].span<float>(), ElementsAre(-2, 0, 3, INFINITY));
  EXPECT_THAT(values[1].span<float>(), ElementsAre(-6, -2, 4, INFINITY));
}

TEST_F(Parts, LastStepIsThatOfEachSequence) {
  Tensor x = Random({3, 4, 2});
  x.data<float>()[(0 * 4 + 3) * 2] = NAN;  // padding
  const Output in = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 2});
  const Output last = LastStep(scope_, in, ops::Const(scope_, {2, 0, 4}));
  ASSERT_OK_AND_ASSIGN(const auto slopes, Gradients(scope_, {Sum(last)}, {in}));
  Start();
  const auto values = Run({{in, x}}, {last, slopes[0]});
  const float* const at = x.data<float>();
  EXPECT_THAT(values[0].span<float>(), ElementsAre(at[2], at[3], 0, 0, at[22], at[23]));
  std::vector<double> expected(24);
  expected[2] = expected[3] = expected[22] = expected[23] = 1;
  EXPECT_EQ(values[1].ToDoubles(), expected);
}

TEST_F(Parts, SinusoidalPositionsAreTheFormula) {
  const Output known = SinusoidalPositions(scope_, ops::Const(scope_, Tensor::Zeros(DType::kFloat32, {2, 700, 6})));
  const Output in = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown, 6});
  const Output open = SinusoidalPositions(scope_, in);
  EXPECT_EQ(known.shape(), Shape({1, 700, 6}));
  Start();
  const auto values = Run({{in, Random({3, 5, 6})}}, {known, open});
  EXPECT_EQ(values[1].shape(), Shape({1, 5, 6}));
  for (int64_t t = 0; t < 700; ++t) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(t) / std::pow(10'000, static_cast<double>(2 * i) / 6);
      EXPECT_NEAR(values[0].data<float>()[t * 6 + 2 * i], std::sin(angle), 1e-7);
      EXPECT_NEAR(values[0].data<float>()[t * 6 + 2 * i + 1], std::cos(angle), 1e-7);
    }
  }
  EXPECT_TRUE(std::equal(values[1].data<float>(), values[1].data<float>() + 30, values[0].data<float>()));
  SinusoidalPositions(scope_, ops::Const(scope_, Random({2, 3, 5})));
  EXPECT_THAT(graph_.status().message(), HasSubstr("needs [N, T, C] with a known, even C"));
}

// By its formula, in double.
TEST_F(Parts, CrossAttentionReadsAMemory) {
  constexpr int kN = 2, kT = 3, kS = 5, kC = 4, kM = 6, kHeads = 2, kWidth = 2;
  const Tensor x = Random({kN, kT, kC}), memory = Random({kN, kS, kM});
  Tensor seen(DType::kBool, {kN, 1, 1, kS});
  for (int i = 0; i < kN * kS; ++i) seen.data<bool>()[i] = i != 3 && i != 9;
  const Output y = CrossAttention(scope_, "cross", ops::Const(scope_, x), ops::Const(scope_, memory),
                                  {.heads = kHeads, .mask = ops::Const(scope_, seen)});
  Start();
  const auto value = [&](const char* name) { return Value(Find(name)); };
  const std::vector<double> query = value("cross/query/weights"), pair = value("cross/memory/weights"),
                            out = value("cross/output/weights"), xs = x.ToDoubles(), ms = memory.ToDoubles();
  ASSERT_EQ(pair.size(), static_cast<size_t>(kM * 2 * kC));
  std::vector<double> expected;
  for (int n = 0; n < kN; ++n) {
    for (int t = 0; t < kT; ++t) {
      std::vector<double> mixed(kC);
      for (int h = 0; h < kHeads; ++h) {
        // Column `c` of the projections of step s: keys come first, then values.
        const auto projected = [&](int s, int c) {
          double sum = 0;
          for (int m = 0; m < kM; ++m) sum += ms[(n * kS + s) * kM + m] * pair[m * 2 * kC + c];
          return sum;
        };
        double total = 0;
        for (int s = 0; s < kS; ++s) {
          if (!seen.data<bool>()[n * kS + s]) continue;
          double score = 0;
          for (int d = h * kWidth; d < (h + 1) * kWidth; ++d) {
            double q = 0;
            for (int c = 0; c < kC; ++c) q += xs[(n * kT + t) * kC + c] * query[c * kC + d];
            score += q * projected(s, d);
          }
          const double weight = std::exp(score / std::sqrt(kWidth));
          total += weight;
          for (int d = h * kWidth; d < (h + 1) * kWidth; ++d) mixed[d] += weight * projected(s, kC + d);
        }
        for (int d = h * kWidth; d < (h + 1) * kWidth; ++d) mixed[d] /= total;
      }
      for (int c = 0; c < kC; ++c) {
        double sum = 0;
        for (int d = 0; d < kC; ++d) sum += mixed[d] * out[d * kC + c];
        expected.push_back(sum);
      }
    }
  }
  EXPECT_THAT(Run({}, {y})[0].ToDoubles(), Pointwise(DoubleNear(1e-5), expected));
}

// A change of a step reaches the steps that see it, and no others.
TEST_F(Parts, EncoderLayerKeepsToItsMask) {
  for (const bool first : {false, true}) {
    const Output in = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 8});
    const std::string name = first ? "first" : "last";
    const Output causal = EncoderLayer(scope_, name + "_causal", in, {.heads = 2, .causal = true, .norm_first = first});
    Tensor seen(DType::kBool, {1, 1, 1, 4});
    for (int i = 0; i < 4; ++i) seen.data<bool>()[i] = i != 2;
    const Output masked =
        EncoderLayer(scope_, name + "_masked", in, {.heads = 2, .mask = ops::Const(scope_, seen), .norm_first = first});
    Start();
    Tensor x = Random({1, 4, 8});
    const auto before = Run({{in, x}}, {causal, masked});
    x.data<float>()[2 * 8] += 1;
    const auto after = Run({{in, x}}, {causal, masked});
    for (int t = 0; t < 4; ++t) {
      const auto step = [&](const Tensor& y) { return y.span<float>().subspan(t * 8, 8); };
      EXPECT_EQ(step(before[0]) == step(after[0]), t < 2) << t;
      EXPECT_EQ(step(before[1]) == step(after[1]), t != 2) << t;
      double square = 0;
      for (const float y : step(after[0])) square += static_cast<double>(y) * y;
      if (!first) {
        EXPECT_NEAR(square, 8, 0.01) << "normalised";
      }
    }
  }
}

}  // namespace
}  // namespace belfry::models
