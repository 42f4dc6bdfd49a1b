// What the cases of LSTM and GRU do not cover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/recurrent.h"
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
    const auto values = harness::Evaluate(fetches, {});
    EXPECT_TRUE(values.ok()) << values.status();
    return *values;
  }
  std::vector<Output> GradientsOf(Output y, const std::vector<Output>& xs) {
    const auto dx = Gradients(scope_, {y}, xs);
    EXPECT_TRUE(dx.ok()) << dx.status();
    return *dx;
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
