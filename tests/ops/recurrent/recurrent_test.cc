// What the cases of LSTM and GRU do not cover.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/recurrent.h"
#include "ops/sequence.h"
#include "tests/framework/base/same_bits.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/op_case_fixture.h"
#include "tests/ops/harness/special_values.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

Tensor Sines(const Shape& shape, double step) {
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  }
  return x;
}

class RecurrentTest : public testing::Test {
 protected:
  Output Constant(const Shape& shape, double step) { return Const(scope_, Sines(shape, step)); }
  std::vector<Tensor> Values(const std::vector<Output>& fetches) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return ValueOf(harness::Evaluate(fetches, {}));
  }
  std::vector<Output> GradientsOf(Output y, const std::vector<Output>& xs) {
    return ValueOf(Gradients(scope_, {y}, xs));
  }

  Graph graph_{BuiltinOps()};
  Scope scope_{graph_};
};

TEST_F(RecurrentTest, ASequenceGoesOnFromItsLastStates) {
  const Output x = Constant({2, 6, 3}, 0.9), w = Constant({3, 80}, 1.3), r = Constant({20, 80}, 1.7);
  const Output w3 = Slice(scope_, w, {0, 0}, {3, 60}), r3 = Slice(scope_, r, {0, 0}, {20, 60});
  const Output begin = Slice(scope_, x, {0, 0, 0}, {2, 4, 3}), end = Slice(scope_, x, {0, 4, 0}, {2, 2, 3});
  const LstmOutputs lstm = Lstm(scope_, x, w, r), lstm_begin = Lstm(scope_, begin, w, r);
  const LstmOutputs lstm_end =
      Lstm(scope_, end, w, r, {.initial_hidden = lstm_begin.hidden, .initial_cell = lstm_begin.cell});
  const GruOutputs gru = Gru(scope_, x, w3, r3), gru_begin = Gru(scope_, begin, w3, r3);
  const GruOutputs gru_end = Gru(scope_, end, w3, r3, {.initial_hidden = gru_begin.hidden});
  const auto values =
      Values({lstm.y, Concat(scope_, {lstm_begin.y, lstm_end.y}, 1), lstm.hidden, lstm_end.hidden, lstm.cell,
              lstm_end.cell, gru.y, Concat(scope_, {gru_begin.y, gru_end.y}, 1), gru.hidden, gru_end.hidden});
  for (size_t i = 0; i < values.size(); i += 2) EXPECT_TRUE(SameBits(values[i], values[i + 1])) << i;
}

TEST_F(RecurrentTest, ALossOfTheLastStateAloneReachesEverything) {
  const Output x = Constant({2, 3, 3}, 0.9), w = Constant({3, 20}, 1.3), r = Constant({5, 20}, 1.7);
  const LstmOutputs lstm = Lstm(scope_, x, w, r);
  const Output last = StridedSlice(scope_, lstm.y, {0, -1}, {kSliceEnd, kSliceEnd});
  std::vector<Output> fetches = GradientsOf(lstm.hidden, {x, w, r});
  for (const Output& each : GradientsOf(last, {x, w, r})) fetches.push_back(each);
  const auto values = Values(fetches);
  for (size_t i = 0; i < 3; ++i) {
    harness::ExpectClose(harness::ToArray(values[i]), harness::ToArray(values[i + 3]), 1e-6, "gradient");
  }
}

TEST_F(RecurrentTest, ASecondDerivativeNeedsAKnownNumberOfSteps) {
  const Output x = Placeholder(scope_, DType::kFloat32, {2, -1, 3});
  const GruOutputs gru = Gru(scope_, x, Constant({3, 15}, 1.3), Constant({5, 15}, 1.7));
  EXPECT_THAT(std::string(Gradients(scope_, GradientsOf(gru.y, {x}), {x}).status().message()),
              HasSubstr("(op type: GruGrad): a second derivative needs numbers of steps and units that are known"));
}

TEST_F(RecurrentTest, NoStepsLeaveTheInitialStatesAndGradientsOfZero) {
  const Output x = Constant({2, 0, 3}, 0.9), w = Constant({3, 20}, 1.3), r = Constant({5, 20}, 1.7);
  const Output h = Constant({2, 5}, 0.3), c = Constant({2, 5}, 0.4);
  const LstmOutputs lstm = Lstm(scope_, x, w, r, {.initial_hidden = h, .initial_cell = c});
  std::vector<Output> fetches = {lstm.hidden, lstm.cell};
  for (const Output& each : GradientsOf(lstm.hidden, {h, r})) fetches.push_back(each);
  const auto values = Values(fetches);
  EXPECT_TRUE(SameBits(values[0], Sines({2, 5}, 0.3)));
  EXPECT_TRUE(SameBits(values[1], Sines({2, 5}, 0.4)));
  EXPECT_EQ(values[2].ToDoubles(), std::vector<double>(10, 1));
  EXPECT_EQ(values[3].ToDoubles(), std::vector<double>(100, 0));
}

TEST_F(RecurrentTest, NaNStaysInItsSequenceAndReachesLaterStepsOnly) {
  Tensor x = Sines({3, 4, 2}, 0.9);
  x.data<float>()[(1 * 4 + 2) * 2] = static_cast<float>(kNaN);
  const Output w = Constant({2, 20}, 1.3), r = Constant({5, 20}, 1.7);
  const std::vector<double> y = Values({Lstm(scope_, Const(scope_, x), w, r).y})[0].ToDoubles();
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i / 20 == 1 && i / 5 % 4 >= 2) << i;
  }
}

TEST_F(RecurrentTest, LargeSumsSaturate) {
  const Output x = Const(scope_, Tensor::Of<float>({1e6f, -1e6f}, {2, 1, 1}));
  const Output w = Const(scope_, Tensor::Of<float>({1, 1, 1, 1}, {1, 4})), r = Constant({1, 4}, 1);
  EXPECT_EQ(Values({Lstm(scope_, x, w, r).cell})[0].ToDoubles(), (std::vector<double>{1, 0}));
}

// PyTorch 2.x, with x = sin(0.9 i) [3, 4, 2], input weights sin(1.3 i) [2, 8], recurrent ones sin(1.7 i) [2, 8] (those
// of the other direction sin(2.3 i) and sin(2.7 i)), lengths 2, 4, 1 and the loss sum(sin(0.7 i) y) + sum(sin(0.4 i)
// h):
//   m = torch.nn.LSTM(2, 2, batch_first=True, bidirectional=True).double()  # weights as above, transposed; biases 0
//   out, h = m(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
//   y, _ = pad_packed_sequence(out, batch_first=True)
TEST_F(RecurrentTest, PackedSequencesOfPyTorchHaveTheSameValuesAndGradients) {
  const Output x = Constant({3, 4, 2}, 0.9), lengths = Const(scope_, {2, 4, 1});
  const Output back = ReverseSequence(scope_, x, lengths);
  const LstmOutputs one = Lstm(scope_, x, Constant({2, 8}, 1.3), Constant({2, 8}, 1.7), {.lengths = lengths});
  const LstmOutputs two = Lstm(scope_, back, Constant({2, 8}, 2.3), Constant({2, 8}, 2.7), {.lengths = lengths});
  const Output y = Concat(scope_, {one.y, ReverseSequence(scope_, two.y, lengths)}, 2);
  const Output h = Stack(scope_, {one.hidden, two.hidden}), c = Stack(scope_, {one.cell, two.cell});
  const auto weighed = [&](const Output& of, double step) {
    return Sum(scope_, Mul(scope_, of, Constant(of.shape(), step)));
  };
  const Output loss = AddN(scope_, {weighed(y, 0.7), weighed(h, 0.4), weighed(c, 0.6)});
  const auto values = Values({y, h, c, GradientsOf(loss, {x})[0]});
  const std::vector<std::vector<double>> expected = {
      {0.0110908,  -0.1339026, 0.0666407,  -0.3172501, -0.1796750, -0.1242863, 0.1552910,  -0.2361958,
       0,          0,          0,          0,          0,          0,          0,          0,
       -0.0903769, -0.2134745, 0.1971645,  -0.2769763, -0.2835536, 0.0758222,  -0.1106110, 0.0154273,
       0.1119955,  0.0644753,  -0.0471481, 0.0104145,  0.0780977,  -0.0647607, 0.1237676,  -0.2227168,
       -0.1840582, -0.0656839, 0.1496525,  -0.2325951, 0,          0,          0,          0,
       0,          0,          0,          0,          0,          0,          0,          0},
      {-0.1796750, -0.1242863, 0.0780977, -0.0647607, -0.1840582, -0.0656839, 0.0666407, -0.3172501, 0.1971645,
       -0.2769763, 0.1496525, -0.2325951},
      {-0.2634613, -0.2012498, 0.2231267, -0.1063969, -0.2803895, -0.1040151, 0.1093114, -0.7630630, 0.2465815,
       -0.7445331, 0.1976480, -0.6348644},
      {0.3308057,  0.4069163,  0.0414463, -0.2790979, 0,          0,          0,          0,
       -0.0618864, 0.1134530,  0.0988799, -0.1420564, -0.1533022, -0.4297098, -0.4675462, -0.1496385,
       -0.4626365, -0.1673174, 0,         0,          0,          0,          0,          0}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(values[i].ToDoubles(), testing::Pointwise(testing::DoubleNear(1e-6), expected[i])) << i;
  }
}

TEST_F(RecurrentTest, WholeLengthsGiveTheBitsOfNone) {
  const Output x = Constant({5, 6, 3}, 0.9), w = Constant({3, 80}, 1.3), r = Constant({20, 80}, 1.7);
  const Output w3 = Slice(scope_, w, {0, 0}, {3, 60}), r3 = Slice(scope_, r, {0, 0}, {20, 60});
  const Output lengths = Fill(scope_, {5}, 6, DType::kInt32);
  const LstmOutputs lstm = Lstm(scope_, x, w, r), with = Lstm(scope_, x, w, r, {.lengths = lengths});
  const GruOutputs gru = Gru(scope_, x, w3, r3), gru_with = Gru(scope_, x, w3, r3, {.lengths = lengths});
  std::vector<Output> fetches = {lstm.y, with.y, lstm.cell, with.cell, gru.y, gru_with.y, gru.hidden, gru_with.hidden};
  for (const auto& [a, b] : {std::pair(lstm.y, with.y), std::pair(gru.y, gru_with.y)}) {
    fetches.insert(fetches.end(), {GradientsOf(a, {x})[0], GradientsOf(b, {x})[0]});
  }
  const auto values = Values(fetches);
  for (size_t i = 0; i < values.size(); i += 2) EXPECT_TRUE(SameBits(values[i], values[i + 1])) << i;
}

TEST_F(RecurrentTest, PaddingDoesNotMatter) {
  Tensor padded = Sines({2, 5, 3}, 0.9);
  std::fill_n(padded.data<float>() + 2 * 3, 9, 1e6f);
  const Output w = Constant({3, 20}, 1.3), r = Constant({5, 20}, 1.7), lengths = Const(scope_, {2, 5});
  std::vector<Output> fetches;
  for (const Output& x : {Constant({2, 5, 3}, 0.9), Const(scope_, padded)}) {
    const LstmOutputs lstm = Lstm(scope_, x, w, r, {.lengths = lengths});
    const Output loss = Add(scope_, Sum(scope_, lstm.y), Sum(scope_, lstm.cell));
    fetches.insert(fetches.end(), {lstm.y, lstm.hidden, lstm.cell});
    for (const Output& each : GradientsOf(loss, {x, w, r})) fetches.push_back(each);
  }
  const auto values = Values(fetches);
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(SameBits(values[i], values[i + 6])) << i;
}

TEST_F(RecurrentTest, LengthsOutsideTheStepsFailTheStep) {
  const Output x = Constant({2, 3, 3}, 0.9), w = Constant({3, 20}, 1.3), r = Constant({5, 20}, 1.7);
  const Output w3 = Slice(scope_, w, {0, 0}, {3, 15}), r3 = Slice(scope_, r, {0, 0}, {5, 15});
  const Output lengths = Placeholder(scope_, DType::kInt32, {2});
  const std::vector<std::pair<Output, std::string>> all = {{Lstm(scope_, x, w, r, {.lengths = lengths}).y, "Lstm"},
                                                           {Gru(scope_, x, w3, r3, {.lengths = lengths}).y, "Gru"},
                                                           {ReverseSequence(scope_, x, lengths), "ReverseSequence"},
                                                           {SequenceMask(scope_, x, lengths), "SequenceMask"}};
  for (const auto& [y, name] : all) {
    for (const int32_t bad : {-1, 4}) {
      const auto values = harness::Evaluate({y}, {{lengths, Tensor::Of<int32_t>({3, bad}, {2})}});
      EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument) << name;
      EXPECT_THAT(values.status().message(), HasSubstr(name));
      EXPECT_THAT(values.status().message(),
                  HasSubstr(absl::StrCat("the length ", bad, " of sequence 1 is outside [0, T] with T = 3")));
    }
  }
}

TEST_F(RecurrentTest, NamesLengthsThatDoNotFit) {
  const auto error = [](DType dtype, const Shape& shape, bool reverse) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output x = Placeholder(scope, DType::kFloat32, {2, 3, 4}), lengths = Placeholder(scope, dtype, shape);
    const Output w = Placeholder(scope, DType::kFloat32, {4, 20}), r = Placeholder(scope, DType::kFloat32, {5, 20});
    if (reverse) {
      ReverseSequence(scope, x, lengths);
    } else {
      Lstm(scope, x, w, r, {.lengths = lengths});
    }
    return std::string(graph.status().message());
  };
  EXPECT_EQ(error(DType::kInt32, {-1}, false), "");
  EXPECT_THAT(error(DType::kInt32, {3}, false), HasSubstr("needs lengths [N], but was given [3] with N = 2"));
  EXPECT_THAT(error(DType::kInt32, {2, 1}, false), HasSubstr("needs lengths [N], but was given [2,1]"));
  EXPECT_THAT(error(DType::kInt64, {2}, false), HasSubstr("lengths"));
  EXPECT_THAT(error(DType::kFloat32, {2}, true), HasSubstr("lengths"));
  EXPECT_THAT(error(DType::kInt32, {3}, true), HasSubstr("needs x [N, T, ...] and lengths [N], but was given x [2,3,4] "
                                                         "and lengths [3]"));
}

TEST_F(RecurrentTest, NamesWhatDoesNotFit) {
  const auto error = [](const Shape& x, const Shape& weights, const Shape& recurrent, const Shape& hidden,
                        const Shape& cell) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const auto in = [&](const Shape& shape) {
      return shape.rank() == 0 ? Output() : Placeholder(scope, DType::kFloat32, shape);
    };
    Lstm(scope, in(x), in(weights), in(recurrent), {.initial_hidden = in(hidden), .initial_cell = in(cell)});
    return std::string(graph.status().message());
  };
  EXPECT_EQ(error({-1, -1, 4}, {4, 20}, {5, 20}, {-1, 5}, {2, 5}), "");
  EXPECT_THAT(error({2, 4}, {4, 20}, {5, 20}, {}, {}), HasSubstr("Lstm needs x [N, T, I], but was given"));
  EXPECT_THAT(
      error({2, 3, 4}, {4, 20}, {4, 20}, {}, {}),
      HasSubstr("needs a projection [N, T, 4 H] and weights [H, 4 H], but was given the projection [2,3,20] and "
                "recurrent weights [4,20]"));
  EXPECT_THAT(error({2, 3, 4}, {4, 20}, {5, 20}, {3, 5}, {3, 5}), HasSubstr("needs initial states [N, H]"));
  EXPECT_THAT(error({2, 3, 4}, {4, 20}, {5, 20}, {2, 5}, {}), HasSubstr("needs initial_hidden and initial_cell"));
}

}  // namespace
}  // namespace belfry::ops
