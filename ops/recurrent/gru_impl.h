// CPU kernels of gated recurrent units. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"

namespace belfry::ops::recurrent {

// Inputs: projection [N, T, 3 H], weights [H, 3 H], biases [3 H], and perhaps the initial hidden state [N, H].
// Outputs: y [N, T, H], last hidden state [N, H], gates r, z and n [N, T, 3 H], and n' before its reset [N, T, H].
template <class T>
absl::StatusOr<Kernel> MakeGru(const KernelSpec& spec);

// Inputs: gates, weights, n', y, gradients of y and of the last hidden state, and perhaps the initial hidden state.
// Outputs: gradients of the projection, of the initial hidden state, and of the recurrent products [N, T, 3 H].
template <class T>
absl::StatusOr<Kernel> MakeGruGrad(const KernelSpec& spec);

}  // namespace belfry::ops::recurrent
