// Recurrent networks over time.
//
// Tensors are float32, float64, float16 or bfloat16; the 16-bit dtypes are computed in float32, and the cell of an LSTM
// is float32 from step to step. N is the batch, T the number of steps, I the width of x, H the number of units. N and T
// may be unknown while the graph is built. Matrices are [from, to], PyTorch's and cuDNN's transposed. The gates
// are in their order.
//
// With `lengths`, sequence n has lengths[n] steps, from 0 to T, and the rest of x[n] is padding: the states no longer
// change there, so the last ones follow its last step, y is 0, and x gets a gradient of 0. Padding may be any finite
// numbers. A length outside [0, T] fails the step on a CPU; on a GPU it counts as the nearer of both.
//
// The projection of x is one product of all steps. The rest is one op, which keeps the gates for the gradient, in place
// of the projection where nothing else reads it. A second derivative unrolls them, for a known T.
#pragma once

#include "framework/graph/scope.h"

namespace belfry::ops {

// In all options, a tensor that is not given is zero, but lengths are then T.
struct LstmOptions {
  Output biases = {};          // [4 H]; the sum of PyTorch's two
  Output initial_hidden = {};  // [N, H]; with initial_cell, or neither
  Output initial_cell = {};    // [N, H]
  Output lengths = {};         // int32 [N]
};
struct LstmOutputs {
  Output y;       // [N, T, H], the hidden state after each step
  Output hidden;  // [N, H], the last one, or the initial one if T is 0
  Output cell;    // [N, H], in the same way
};
// Long short-term memory (Hochreiter and Schmidhuber, 1997; with the forget gate of Gers et al., 2000) of x [N, T, I],
// with weights [I, 4 H] and recurrent_weights [H, 4 H], whose columns are those of the gates i, f, g, o. At each step,
//   [i, f, g, o] = x_t weights + h recurrent_weights + biases
//   c = sigmoid(f) c + sigmoid(i) tanh(g)    h = sigmoid(o) tanh(c)
LstmOutputs Lstm(OpScope scope, Output x, Output weights, Output recurrent_weights, const LstmOptions& options = {});

struct GruOptions {
  Output biases = {};            // [3 H]
  Output recurrent_biases = {};  // [3 H]
  Output initial_hidden = {};    // [N, H]
  Output lengths = {};           // int32 [N]
};
struct GruOutputs {
  Output y;       // [N, T, H], the hidden state after each step
  Output hidden;  // [N, H], the last one, or the initial one if T is 0
};
// Gated recurrent units (Cho et al., 2014) of x [N, T, I], with weights [I, 3 H] and recurrent_weights [H, 3 H], whose
// columns are those of the gates r, z, n. The reset gate comes after the product, as in cuDNN. At each step,
//   [r, z, n] = x_t weights + biases    [r', z', n'] = h recurrent_weights + recurrent_biases
//   z = sigmoid(z + z')    h = z h + (1 - z) tanh(n + sigmoid(r + r') n')
GruOutputs Gru(OpScope scope, Output x, Output weights, Output recurrent_weights, const GruOptions& options = {});

}  // namespace belfry::ops
