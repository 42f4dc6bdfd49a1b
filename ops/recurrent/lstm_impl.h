// CPU kernels of an LSTM. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"

namespace belfry::ops::recurrent {

// Inputs: projection [N, T, 4 H], weights [H, 4 H], and perhaps the initial hidden state and cell [N, H].
// Outputs: y [N, T, H], last hidden state and cell [N, H], all cells [N, T, H], gates [N, T, 4 H].
template <class T>
absl::StatusOr<Kernel> MakeLstm(const KernelSpec& spec);

// Inputs: gates, weights, cells, gradients of y and of the last hidden state and cell, and perhaps the initial cell.
// Outputs: gradients of the projection and of the initial hidden state and cell.
template <class T>
absl::StatusOr<Kernel> MakeLstmGrad(const KernelSpec& spec);

}  // namespace belfry::ops::recurrent
