// Recurrent layers. The rules of layers.h hold; x is a batch of sequences, [N, T, C], of which C is known and N or T
// may be unknown.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/recurrent.h"

namespace belfry::models {

struct LstmOptions {
  Output initial_hidden = {};  // [N, units], in the dtype of x, with initial_cell; neither: zeros
  Output initial_cell = {};
  Output lengths = {};     // int32 [N], the steps of each sequence (ops/recurrent.h); none: T
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
  Output lengths = {};         // int32 [N], the steps of each sequence (ops/recurrent.h); none: T
  Initializer weights = GlorotUniformInitializer();
  Initializer recurrent_weights = GlorotUniformInitializer();
};
// ops::Gru of x: y [N, T, units] and the last hidden state [N, units]. Variables: weights [C, 3 units],
// recurrent_weights [units, 3 units], biases and recurrent_biases [3 units], which start at 0, for the gates r, z, n.
ops::GruOutputs Gru(OpScope scope, absl::string_view name, Output x, int64_t units, const GruOptions& options = {});

struct RecurrentStackOptions {
  int64_t layers = 1;
  bool bidirectional = false;  // each layer also runs from the last step of each sequence to its first
  Output lengths = {};         // int32 [N], the steps of each sequence (ops/recurrent.h); none: T
  double dropout = 0;          // rate of dropout of y of each layer but the last, in training
  bool training = true;
  double forget_bias = 1;  // of LSTMs
  Initializer weights = GlorotUniformInitializer();
  Initializer recurrent_weights = GlorotUniformInitializer();
};
// D is 2 if the stack is bidirectional, otherwise 1. Of both directions the forward one comes first.
struct RecurrentStackOutputs {
  Output y;                    // [N, T, D units], of the last layer; 0 in the padding
  std::vector<Output> hidden;  // by layer, [N, D units]: after the direction's last step, which is step 0 backward
  std::vector<Output> cells;   // likewise; none of a GruStack
};
// Layers of Lstm or Gru that read each other's y, with initial states of 0: PyTorch's with num_layers, bidirectional,
// dropout and packed sequences. hidden.back() is a summary of each sequence. Variables: those of Lstm or Gru, in
// layer_0/forward, layer_0/backward, layer_1/forward ...
RecurrentStackOutputs LstmStack(OpScope scope, absl::string_view name, Output x, int64_t units,
                                const RecurrentStackOptions& options = {});
RecurrentStackOutputs GruStack(OpScope scope, absl::string_view name, Output x, int64_t units,
                               const RecurrentStackOptions& options = {});

// The mean and the maximum over the steps of each sequence, without its padding: x [N, T, ...] and lengths int32 [N]
// give [N, ...]. A sequence of length 0 gives 0. Padding may be anything, and gets a gradient of 0.
Output MeanOverSteps(OpScope scope, Output x, Output lengths);
Output MaxOverSteps(OpScope scope, Output x, Output lengths);
// The last step of each sequence, x[n, lengths[n] - 1], and 0 where that is below 0. T is at least 1; a length above it
// fails the step on a CPU. The rest as above.
Output LastStep(OpScope scope, Output x, Output lengths);

}  // namespace belfry::models
