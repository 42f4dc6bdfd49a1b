// Positions of the steps of sequences.
#pragma once

#include "framework/graph/scope.h"

namespace belfry::models {

// The positions int32 [N, T] of T steps after `past` [N] earlier ones: past[n] + t, for the N and T of `steps` [N, T],
// whose elements are not read.
Output PositionsAfter(const Scope& scope, Output past, Output steps);

// The first rows of `table`, one for each position of tokens [N, T]: [T, C], or [1, T, C] if T is unknown
// so far.
Output FirstRows(const Scope& scope, Output table, Output tokens);

}  // namespace belfry::models
