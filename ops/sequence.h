// Batches of sequences of different lengths.
//
// Such a batch is padded: x [N, T, ...], of which sequence n is x[n, :lengths[n]], and the rest is padding. Lengths are
// int32 [N], from 0 to T. On the CPU another length fails the step; on a GPU it counts as the nearer of both. N and T
// may be unknown while the graph is built. ops::Lstm and ops::Gru take lengths, too (ops/recurrent.h).
#pragma once

#include "framework/graph/scope.h"

namespace belfry::ops {

// Reverses the steps of each sequence and leaves its padding where it is: y[n, t] = x[n, lengths[n] - 1 - t] for
// t < lengths[n], otherwise x[n, t]. x [N, T, ...] of any dtype.
Output ReverseSequence(OpScope scope, Output x, Output lengths);

// True for the steps of a sequence, false for padding: bool [N, T], y[n, t] = t < lengths[n], for the N and T of
// x [N, T, ...], whose elements are not read. Not differentiable. As [N, 1, 1, T] it is a mask of ops::Attention that
// hides the padding of the keys.
Output SequenceMask(OpScope scope, Output x, Output lengths);

}  // namespace belfry::ops
