#include "models/layers/recurrent.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "ops/array.h"

namespace belfry::models {
namespace {

// True if x is [N, T, C] with known C, and there are units.
bool IsSequence(const Scope& scope, absl::string_view layer, absl::string_view name, const Output& x, int64_t units) {
  if (!x.valid()) {
    Reject(scope, layer, name, "has an invalid Output as input", x);
  } else if (!IsFloating(x.dtype())) {
    Reject(scope, layer, name, kNeedsFloats, x);
  } else if (x.shape().rank() != 3 || x.shape()[2] == Shape::kUnknown) {
    Reject(scope, layer, name, "needs [N, T, C] with known C", x);
  } else if (units < 1) {
    Reject(scope, layer, name, absl::StrCat("has ", units, " units"), x);
  } else {
    return true;
  }
  return false;
}

// Biases [4 units] that are `value` for the second gate and otherwise 0.
Initializer ForgetBias(double value) {
  return [value](const Scope& scope, absl::string_view, DType dtype, const Shape& shape) {
    const Shape gate = {shape[0] / 4};
    const Output zeros = ops::Fill(scope, gate, 0, dtype);
    return ops::Concat(scope, {zeros, ops::Fill(scope, gate, value, dtype), zeros, zeros}, 0);
  };
}

}  // namespace

ops::LstmOutputs Lstm(OpScope scope, absl::string_view name, Output x, int64_t units, const LstmOptions& options) {
  if (!IsSequence(scope, "Lstm", name, x, units)) return {};
  const Scope layer = scope.VariableScope(name);
  const DType dtype = x.dtype();
  const Parameter weights = GetParameter(layer, "weights", {x.shape()[2], 4 * units}, options.weights, dtype);
  const Parameter recurrent =
      GetParameter(layer, "recurrent_weights", {units, 4 * units}, options.recurrent_weights, dtype);
  const Parameter biases = GetParameter(layer, "biases", {4 * units}, ForgetBias(options.forget_bias), dtype);
  return ops::Lstm(layer, x, weights.used, recurrent.used,
                   {.biases = biases.used,
                    .initial_hidden = options.initial_hidden,
                    .initial_cell = options.initial_cell,
                    .lengths = options.lengths});
}

ops::GruOutputs Gru(OpScope scope, absl::string_view name, Output x, int64_t units, const GruOptions& options) {
  if (!IsSequence(scope, "Gru", name, x, units)) return {};
  const Scope layer = scope.VariableScope(name);
  const DType dtype = x.dtype();
  const Parameter weights = GetParameter(layer, "weights", {x.shape()[2], 3 * units}, options.weights, dtype);
  const Parameter recurrent =
      GetParameter(layer, "recurrent_weights", {units, 3 * units}, options.recurrent_weights, dtype);
  const Parameter biases = GetParameter(layer, "biases", {3 * units}, ZerosInitializer(), dtype);
  const Parameter recurrent_biases = GetParameter(layer, "recurrent_biases", {3 * units}, ZerosInitializer(), dtype);
  return ops::Gru(layer, x, weights.used, recurrent.used,
                  {.biases = biases.used,
                   .recurrent_biases = recurrent_biases.used,
                   .initial_hidden = options.initial_hidden,
                   .lengths = options.lengths});
}

}  // namespace belfry::models
