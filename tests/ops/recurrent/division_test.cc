// LSTM and GRU whose units, or whose sequences, several threads share.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "framework/base/parallel.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/recurrent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

struct RecurrentSizes {
  int64_t n, t, h;
};
// Units that threads share, with a last block that is not whole: one sequence, two, and more than are few. Then
// sequences that they share, and more units than sums are kept of at once.
const std::vector<RecurrentSizes> kRecurrentSizes = {{1, 3, 259}, {2, 2, 205}, {3, 3, 150}, {9, 2, 20}, {50, 2, 180}};

Output Sines(const Scope& scope, DType dtype, const Shape& shape, double step, double scale = 1) {
  Tensor x(DType::kFloat64, shape);
  for (int64_t i = 0; i < x.elements(); ++i) x.data<double>()[i] = scale * std::sin(step * static_cast<double>(i + 1));
  return Cast(scope, Const(scope, x), dtype);
}

// Operands of a layer, and all that it computes.
struct Layer {
  Graph graph{BuiltinOps()};
  Scope scope{graph};
  DType dtype;
  RecurrentSizes sizes;
  bool gru;
  Output x, weights, recurrent_weights, biases, hidden, cell;

  Layer(DType dtype, const RecurrentSizes& sizes, bool gru) : dtype(dtype), sizes(sizes), gru(gru) {
    const int64_t columns = (gru ? 3 : 4) * sizes.h;
    x = Sines(scope, dtype, {sizes.n, sizes.t, 5}, 0.9);
    weights = Sines(scope, dtype, {5, columns}, 1.3);
    recurrent_weights = Sines(scope, dtype, {sizes.h, columns}, 1.7, 1 / std::sqrt(static_cast<double>(sizes.h)));
    biases = Sines(scope, dtype, {columns}, 0.6);
    hidden = Sines(scope, dtype, {sizes.n, sizes.h}, 0.3);
    cell = Sines(scope, dtype, {sizes.n, sizes.h}, 0.4);
  }

  // y and the last states.
  std::vector<Output> Op(Output lengths = {}) const {
    if (gru) {
      const GruOutputs of = Gru(scope, x, weights, recurrent_weights,
                                {.recurrent_biases = biases, .initial_hidden = hidden, .lengths = lengths});
      return {of.y, of.hidden};
    }
    const LstmOutputs of = Lstm(scope, x, weights, recurrent_weights,
                                {.biases = biases, .initial_hidden = hidden, .initial_cell = cell, .lengths = lengths});
    return {of.y, of.hidden, of.cell};
  }

  // The same of small ops.
  std::vector<Output> Unrolled() const {
    const int64_t h = sizes.h;
    Output state = hidden, memory = cell;
    std::vector<Output> ys;
    for (int64_t step = 0; step < sizes.t; ++step) {
      const Output at = Reshape(scope, Slice(scope, x, {0, step, 0}, {sizes.n, 1, 5}), {sizes.n, 5});
      const Output a = MatMul(scope, at, weights), b = Add(scope, MatMul(scope, state, recurrent_weights), biases);
      const auto part = [&](Output of, int64_t gate) { return Slice(scope, of, {0, gate * h}, {sizes.n, h}); };
      const auto sum = [&](int64_t gate) { return Add(scope, part(a, gate), part(b, gate)); };
      if (gru) {
        const Output r = Sigmoid(scope, sum(0)), z = Sigmoid(scope, sum(1));
        const Output n = Tanh(scope, Add(scope, part(a, 2), Mul(scope, r, part(b, 2))));
        state = Add(scope, n, Mul(scope, z, Sub(scope, state, n)));
      } else {
        memory = Add(scope, Mul(scope, Sigmoid(scope, sum(1)), memory),
                     Mul(scope, Sigmoid(scope, sum(0)), Tanh(scope, sum(2))));
        state = Mul(scope, Sigmoid(scope, sum(3)), Tanh(scope, memory));
      }
      ys.push_back(state);
    }
    std::vector<Output> all = {Stack(scope, ys, 1), state};
    if (!gru) all.push_back(memory);
    return all;
  }

  // `results`, and the gradients of a weighed sum of them.
  std::vector<Tensor> ValuesAndGradients(std::vector<Output> results) const {
    std::vector<Output> dy;
    for (const Output& each : results)
      dy.push_back(Sines(scope, dtype, each.shape(), 0.7 + 0.1 * static_cast<double>(dy.size())));
    std::vector<Output> inputs = {x, weights, recurrent_weights, biases, hidden};
    if (!gru) inputs.push_back(cell);
    const auto gradients = ValueOf(Gradients(scope, results, inputs, {.grad_ys = dy}));
    results.insert(results.end(), gradients.begin(), gradients.end());
    return ValueOf(harness::Evaluate(results, {}));
  }
};

std::string Text(const Layer& layer) {
  return std::string(layer.gru ? "GRU " : "LSTM ") + Shape({layer.sizes.n, layer.sizes.t, layer.sizes.h}).ToString() +
         " " + std::string(DTypeName(layer.dtype));
}

TEST(RecurrentDivision, ValuesAndGradientsAreThoseOfSmallOps) {
  const ScopedParallelThreads scoped(4);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const RecurrentSizes& sizes : kRecurrentSizes) {
      for (const bool gru : {false, true}) {
        const Layer layer(dtype, sizes, gru);
        const std::vector<Tensor> values = layer.ValuesAndGradients(layer.Op());
        const std::vector<Tensor> expected = layer.ValuesAndGradients(layer.Unrolled());
        ASSERT_EQ(values.size(), expected.size());
        for (size_t i = 0; i < values.size(); ++i) {
          const std::vector<double> a = values[i].ToDoubles(), b = expected[i].ToDoubles();
          ASSERT_EQ(a.size(), b.size());
          double largest = 0, off = 0;
          for (size_t j = 0; j < a.size(); ++j) {
            largest = std::max(largest, std::abs(b[j]));
            off = std::max(off, std::abs(a[j] - b[j]));
          }
          EXPECT_LE(off, largest * (dtype == DType::kFloat32 ? 3e-6 : 1e-14)) << Text(layer) << " result " << i;
        }
      }
    }
  }
}

TEST(RecurrentDivision, TheNumberOfThreadsDoesNotChangeBits) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    for (const RecurrentSizes& sizes : kRecurrentSizes) {
      for (const bool gru : {false, true}) {
        const Layer layer(dtype, sizes, gru);
        // Lengths from 0 to T, in mixed order.
        Tensor lengths(DType::kInt32, {sizes.n});
        for (int64_t i = 0; i < sizes.n; ++i) {
          lengths.data<int32_t>()[i] = static_cast<int32_t>((2 * i + sizes.t - 1) % (sizes.t + 1));
        }
        for (const Output& each : {Output(), Const(layer.scope, lengths)}) {
          const std::vector<Output> op = layer.Op(each);
          std::vector<Tensor> one;
          for (const int threads : {1, 2, 3, 4}) {
            const ScopedParallelThreads scoped(threads);
            const std::vector<Tensor> values = layer.ValuesAndGradients(op);
            if (threads == 1) one = values;
            for (size_t i = 0; i < values.size(); ++i) {
              EXPECT_TRUE(SameBits(values[i], one[i])) << Text(layer) << (each.valid() ? " with lengths" : "")
                                                       << ", result " << i << ", " << threads << " threads";
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace belfry::ops
