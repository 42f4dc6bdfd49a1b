// Positions of the steps of sequences.
#pragma once

#include <cstdint>

#include "framework/graph/scope.h"

namespace belfry::models {

// The positions int32 [N, T] of T steps after `past` [N] earlier ones: past[n] + t, for the N and T of `steps` [N, T],
// whose elements are not read.
Output PositionsAfter(const Scope& scope, Output past, Output steps);

// The angles position base^(-i / pairs) of the pairs i of channels, float64 so that distant positions are precise:
// positions float64 [.., 1] give [.., pairs].
Output AnglesAt(const Scope& scope, Output positions, int64_t pairs, double base);

// The first rows of `table`, one for each position of tokens [N, T]: [T, C], or [1, T, C] if T is unknown
// so far.
Output FirstRows(const Scope& scope, Output table, Output tokens);

}  // namespace belfry::models
