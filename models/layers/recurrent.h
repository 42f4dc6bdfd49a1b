// Recurrent layers. The rules of layers.h hold; x is a batch of sequences, [N, T, C], of which C is known and N or T
// may be unknown.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/recurrent.h"

namespace belfry::models {

struct LstmOptions {
  Output initial_hidden = {};  // [N, units], in the dtype of x, with initial_cell; neither: zeros
  Output initial_cell = {};
  double forget_bias = 1;  // where the biases of the forget gate start, so that the cell remembers (Gers et al., 2000)
  Initializer weights = GlorotUniformInitializer();
  Initializer recurrent_weights = GlorotUniformInitializer();
};
// ops::Lstm of x: y [N, T, units], the last hidden state and the last cell [N, units]. For the next part of the
// sequences, give these as the initial ones. Variables: weights [C, 4 units], recurrent_weights [units, 4 units] and
// biases [4 units], for the gates i, f, g, o.
ops::LstmOutputs Lstm(OpScope scope, absl::string_view name, Output x, int64_t units, const LstmOptions& options = {});

struct GruOptions {
  Output initial_hidden = {};  // [N, units], in the dtype of x; none: zeros
  Initializer weights = GlorotUniformInitializer();
  Initializer recurrent_weights = GlorotUniformInitializer();
};
// ops::Gru of x: y [N, T, units] and the last hidden state [N, units]. Variables: weights [C, 3 units],
// recurrent_weights [units, 3 units], biases and recurrent_biases [3 units], which start at 0, for the gates r, z, n.
ops::GruOutputs Gru(OpScope scope, absl::string_view name, Output x, int64_t units, const GruOptions& options = {});

}  // namespace belfry::models
