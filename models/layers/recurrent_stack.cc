#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/layers/recurrent.h"
#include "ops/array.h"
#include "ops/sequence.h"

namespace belfry::models {
namespace {

// The sequences from their last steps to their first.
Output Backward(const Scope& scope, const Output& x, const Output& lengths) {
  if (lengths.valid()) return ops::ReverseSequence(scope, x, lengths);
  return ops::StridedSlice(scope, x, {0, ops::kSliceEnd}, {ops::kSliceEnd, -ops::kSliceEnd}, {1, -1});
}

// The results of one direction, of a GRU without a cell.
struct Direction {
  Output y, hidden, cell;
};

// `run(scope, name, x)` adds a layer of one direction.
template <class Run>
RecurrentStackOutputs Stack(const Scope& outer, absl::string_view kind, absl::string_view name, const Output& x,
                            const RecurrentStackOptions& options, const Run& run) {
  if (options.layers < 1) {
    Reject(outer, kind, name, absl::StrCat("has ", options.layers, " layers"), x);
    return {};
  }
  const Scope scope = outer.VariableScope(name);
  RecurrentStackOutputs stack{.y = x};
  for (int64_t i = 0; i < options.layers && scope.status().ok(); ++i) {
    const Scope layer = scope.VariableScope(absl::StrCat("layer_", i));
    if (i > 0) stack.y = Dropout(layer, "dropout", stack.y, options.dropout, options.training);
    Direction made = run(layer, "forward", stack.y);
    if (options.bidirectional && scope.status().ok()) {
      const Direction other = run(layer, "backward", Backward(layer, stack.y, options.lengths));
      if (!scope.status().ok()) break;
      made.y = ops::Concat(layer, {made.y, Backward(layer, other.y, options.lengths)}, -1);
      made.hidden = ops::Concat(layer, {made.hidden, other.hidden}, -1);
      if (made.cell.valid()) made.cell = ops::Concat(layer, {made.cell, other.cell}, -1);
    }
    stack.y = made.y;
    stack.hidden.push_back(made.hidden);
    if (made.cell.valid()) stack.cells.push_back(made.cell);
  }
  return scope.status().ok() ? stack : RecurrentStackOutputs();
}

}  // namespace

RecurrentStackOutputs LstmStack(OpScope scope, absl::string_view name, Output x, int64_t units,
                                const RecurrentStackOptions& options) {
  const LstmOptions of_layers = {.lengths = options.lengths,
                                 .forget_bias = options.forget_bias,
                                 .weights = options.weights,
                                 .recurrent_weights = options.recurrent_weights};
  return Stack(scope, "LstmStack", name, x, options,
               [&](const Scope& layer, absl::string_view direction, const Output& input) {
                 const ops::LstmOutputs made = Lstm(layer, direction, input, units, of_layers);
                 return Direction{made.y, made.hidden, made.cell};
               });
}

RecurrentStackOutputs GruStack(OpScope scope, absl::string_view name, Output x, int64_t units,
                               const RecurrentStackOptions& options) {
  const GruOptions of_layers = {
      .lengths = options.lengths, .weights = options.weights, .recurrent_weights = options.recurrent_weights};
  return Stack(scope, "GruStack", name, x, options,
               [&](const Scope& layer, absl::string_view direction, const Output& input) {
                 const ops::GruOutputs made = Gru(layer, direction, input, units, of_layers);
                 return Direction{made.y, made.hidden, {}};
               });
}

}  // namespace belfry::models
