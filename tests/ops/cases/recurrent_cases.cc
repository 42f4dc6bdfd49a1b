#include <array>
#include <cmath>

#include "ops/recurrent.h"
#include "ops/sequence.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

double Squash(double x) { return 1 / (1 + std::exp(-x)); }

// x [m, k], of which row i begins at x_at + i * x_row, times weights [k, n], plus biases [n] unless null.
std::vector<double> Products(const Array& x, int64_t m, int64_t x_at, int64_t x_row, const Array& weights,
                             const Array* biases) {
  const int64_t k = weights.shape[0], n = weights.shape[1];
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = biases == nullptr ? 0 : (*biases)[j];
      for (int64_t p = 0; p < k; ++p) sum += x[x_at + i * x_row + p] * weights[p * n + j];
      y.push_back(sum);
    }
  }
  return y;
}

// Steps of a sequence: as many as its length, or `t` without lengths.
int64_t Steps(const Array* lengths, int64_t sequence, int64_t t) {
  return lengths == nullptr ? t : static_cast<int64_t>((*lengths)[sequence]);
}

// The states [N, H] step by step. `step` is called for each step and element with the sums of x and of h, and the index
// of the first gate there; a step of gates is H.
struct Recurrence {
  Array y, h;

  template <class Step>
  Recurrence(const Array& x, const Array& weights, const Array* biases, const Array& recurrent_weights,
             const Array* recurrent_biases, const Array* initial, const Array* lengths, const Step& step) {
    const int64_t n = x.shape[0], t = x.shape[1], i = x.shape[2], units = recurrent_weights.shape[0];
    y = Array({n, t, units});
    h = initial == nullptr ? Array({n, units}) : *initial;
    for (int64_t s = 0; s < t; ++s) {
      const std::vector<double> of_x = Products(x, n, s * i, t * i, weights, biases);
      const std::vector<double> of_h = Products(h, n, 0, units, recurrent_weights, recurrent_biases);
      for (int64_t at = 0; at < n * units; ++at) {
        if (s >= Steps(lengths, at / units, t)) continue;
        const int64_t gates = recurrent_weights.shape[1], first = at / units * gates + at % units;
        h[at] = step(at, of_x.data() + first, of_h.data() + first);
        y[(at / units * t + s) * units + at % units] = h[at];
      }
    }
  }
};

Arrays LstmOf(const Array& x, const Array& weights, const Array& recurrent_weights, const Array& biases,
              const Array* hidden, const Array* initial_cell, const Array* lengths = nullptr) {
  const int64_t h = recurrent_weights.shape[0];
  Array cell = initial_cell == nullptr ? Array({x.shape[0], h}) : *initial_cell;
  const Recurrence all(x, weights, &biases, recurrent_weights, nullptr, hidden, lengths,
                       [&](int64_t at, const double* a, const double* b) {
                         cell[at] =
                             Squash(a[h] + b[h]) * cell[at] + Squash(a[0] + b[0]) * std::tanh(a[2 * h] + b[2 * h]);
                         return Squash(a[3 * h] + b[3 * h]) * std::tanh(cell[at]);
                       });
  return {all.y, all.h, cell};
}

Arrays GruOf(const Array& x, const Array& weights, const Array& recurrent_weights, const Array* biases,
             const Array* recurrent_biases, const Array* hidden, const Array* lengths = nullptr) {
  const int64_t h = recurrent_weights.shape[0];
  Array state = hidden == nullptr ? Array({x.shape[0], h}) : *hidden;
  const Recurrence all(x, weights, biases, recurrent_weights, recurrent_biases, hidden, lengths,
                       [&](int64_t at, const double* a, const double* b) {
                         const double z = Squash(a[h] + b[h]);
                         const double n = std::tanh(a[2 * h] + Squash(a[0] + b[0]) * b[2 * h]);
                         return state[at] = z * state[at] + (1 - z) * n;
                       });
  return {all.y, all.h};
}

// Inputs for the extents N, T, I, H, with or without initial states.
std::vector<Shape> Shapes(int64_t n, int64_t t, int64_t i, int64_t h, int64_t gates, int biases, int states) {
  std::vector<Shape> shapes = {{n, t, i}, {i, gates * h}, {h, gates * h}};
  shapes.insert(shapes.end(), static_cast<size_t>(biases), Shape{gates * h});
  shapes.insert(shapes.end(), static_cast<size_t>(states), Shape{n, h});
  return shapes;
}

OpCase WithShapes(OpCase op_case, int64_t gates, int biases, int states) {
  for (const Shape& shape : Shapes(2, 3, 4, 5, gates, biases, states)) op_case.inputs.push_back({shape});
  for (const auto& [n, t, i, h] : std::vector<std::array<int64_t, 4>>{
           {1, 1, 1, 1}, {0, 3, 2, 4}, {3, 0, 2, 4}, {7, 1, 3, 16}, {5, 3, 33, 18}, {49, 2, 3, 35}}) {
    op_case.more_shapes.push_back(Shapes(n, t, i, h, gates, biases, states));
  }
  op_case.tolerance = 4;
  op_case.gradient_tolerance = 2;
  return op_case;
}

// With lengths [N] as the last input; the first axes of all are N, and T is at least 3.
OpCase WithLengths(OpCase op_case) {
  op_case.inputs.push_back({.shape = {2}, .low = 0, .high = 4, .dtype = DType::kInt32, .values = {3, 1}});
  const size_t inputs = op_case.inputs.size() - 1;
  std::vector<std::vector<Shape>> shapes;
  for (std::vector<Shape>& each : op_case.more_shapes) {
    if (each[0][1] < 3) each[0] = {each[0][0], 3, each[0][2]};
    each.resize(inputs);
    each.push_back({each[0][0]});
    shapes.push_back(each);
  }
  op_case.more_shapes = shapes;
  return op_case;
}

std::vector<OpCase> LstmCases() {
  const OpCase given = {
      .name = "Lstm",
      .build =
          [](const Scope& scope, const Ins& in) {
            const ops::LstmOutputs all = ops::Lstm(scope, in[0], in[1], in[2],
                                                   {.biases = in[3], .initial_hidden = in[4], .initial_cell = in[5]});
            return Outs{all.y, all.hidden, all.cell};
          },
      .reference = [](const Arrays& in) { return LstmOf(in[0], in[1], in[2], in[3], &in[4], &in[5]); }};
  const OpCase zero = {
      .name = "LstmFromZero",
      .build = [](const Scope& scope,
                  const Ins& in) { return Outs{ops::Lstm(scope, in[0], in[1], in[2], {.biases = in[3]}).y}; },
      .reference = [](const Arrays& in) { return Arrays{LstmOf(in[0], in[1], in[2], in[3], nullptr, nullptr)[0]}; }};
  const OpCase lengths = {
      .name = "LstmOfLengths",
      .build =
          [](const Scope& scope, const Ins& in) {
            const ops::LstmOutputs all =
                ops::Lstm(scope, in[0], in[1], in[2],
                          {.biases = in[3], .initial_hidden = in[4], .initial_cell = in[5], .lengths = in[6]});
            return Outs{all.y, all.hidden, all.cell};
          },
      .reference = [](const Arrays& in) { return LstmOf(in[0], in[1], in[2], in[3], &in[4], &in[5], &in[6]); }};
  return {WithShapes(given, 4, 1, 2), WithShapes(zero, 4, 1, 0), WithLengths(WithShapes(lengths, 4, 1, 2))};
}

std::vector<OpCase> GruCases() {
  const OpCase given = {
      .name = "Gru",
      .build =
          [](const Scope& scope, const Ins& in) {
            const ops::GruOutputs all = ops::Gru(scope, in[0], in[1], in[2],
                                                 {.biases = in[3], .recurrent_biases = in[4], .initial_hidden = in[5]});
            return Outs{all.y, all.hidden};
          },
      .reference = [](const Arrays& in) { return GruOf(in[0], in[1], in[2], &in[3], &in[4], &in[5]); }};
  const OpCase zero = {
      .name = "GruFromZero",
      .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Gru(scope, in[0], in[1], in[2]).hidden}; },
      .reference = [](const Arrays& in) { return Arrays{GruOf(in[0], in[1], in[2], nullptr, nullptr, nullptr)[1]}; }};
  const OpCase lengths = {
      .name = "GruOfLengths",
      .build =
          [](const Scope& scope, const Ins& in) {
            const ops::GruOutputs all =
                ops::Gru(scope, in[0], in[1], in[2],
                         {.biases = in[3], .recurrent_biases = in[4], .initial_hidden = in[5], .lengths = in[6]});
            return Outs{all.y, all.hidden};
          },
      .reference = [](const Arrays& in) { return GruOf(in[0], in[1], in[2], &in[3], &in[4], &in[5], &in[6]); }};
  const OpCase lengths_from_zero = {
      .name = "GruOfLengthsFromZero",
      .build =
          [](const Scope& scope, const Ins& in) {
            const ops::GruOutputs all = ops::Gru(scope, in[0], in[1], in[2], {.lengths = in[3]});
            return Outs{all.y, all.hidden};
          },
      .reference = [](const Arrays& in) { return GruOf(in[0], in[1], in[2], nullptr, nullptr, nullptr, &in[3]); }};
  return {WithShapes(given, 3, 2, 1), WithShapes(zero, 3, 0, 0), WithLengths(WithShapes(lengths, 3, 2, 1)),
          WithLengths(WithShapes(lengths_from_zero, 3, 0, 0))};
}

std::vector<OpCase> SequenceCases() {
  const Input lengths = {.shape = {3}, .low = 0, .high = 5, .dtype = DType::kInt32, .values = {4, 0, 3}};
  const std::vector<std::vector<Shape>> shapes = {
      {{1, 4, 1}, {1}}, {{0, 4, 2}, {0}}, {{2, 5, 0}, {2}}, {{33, 7, 3}, {33}}, {{5, 4, 16}, {5}}};
  const OpCase reverse = {
      .name = "ReverseSequence",
      .inputs = {{{3, 4, 2}}, lengths},
      .build = [](const Scope& scope, const Ins& in) { return Outs{ops::ReverseSequence(scope, in[0], in[1])}; },
      .reference =
          [](const Arrays& in) {
            Array y = in[0];
            const int64_t t = y.shape[1], inner = y.shape[2];
            for (int64_t i = 0; i < y.size(); ++i) {
              const int64_t n = i / inner / t, step = i / inner % t, steps = Steps(&in[1], n, t);
              if (step < steps) y[i] = in[0][(n * t + steps - 1 - step) * inner + i % inner];
            }
            return Arrays{y};
          },
      .more_shapes = shapes};
  OpCase mask = {
      .name = "SequenceMask",
      .inputs = {{{3, 4, 2}}, lengths},
      .build = [](const Scope& scope, const Ins& in) { return Outs{ops::SequenceMask(scope, in[0], in[1])}; },
      .reference =
          [](const Arrays& in) {
            const int64_t t = in[0].shape[1];
            Array y({in[0].shape[0], t});
            for (int64_t i = 0; i < y.size(); ++i) y[i] = i % t < Steps(&in[1], i / t, t) ? 1 : 0;
            return Arrays{y};
          },
      .more_shapes = shapes};
  mask.gradient = false;
  return {reverse, mask};
}

}  // namespace

std::vector<OpCase> RecurrentCases() {
  std::vector<OpCase> cases = LstmCases();
  for (OpCase& each : GruCases()) cases.push_back(std::move(each));
  for (OpCase& each : SequenceCases()) cases.push_back(std::move(each));
  // Every extent of x, and the batch of the states; the weights tell the others.
  for (OpCase& each : cases) each.unknown_axes = {0, 1};
  return cases;
}

}  // namespace belfry::harness
