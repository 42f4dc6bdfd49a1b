// The layout of batches of sequences. Internal.
#pragma once

#include <cstdint>

#include "ops/recurrent/problem_impl.h"

namespace belfry::ops::recurrent {

// x [N, T, ...], with as many elements a step as the problem has units.
inline Problem SequencesOf(const Shape& x) { return {.n = x[0], .t = x[1], .h = x.elements(2, x.rank())}; }

// The step that step `step` of a sequence of `steps` becomes when these are reversed.
constexpr int64_t Reversed(int64_t step, int64_t steps) { return step < steps ? steps - 1 - step : step; }

}  // namespace belfry::ops::recurrent
