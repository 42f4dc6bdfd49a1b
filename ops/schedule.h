// Learning rates as functions of the step, computed by the same code in a node and on the host.
//
// Each op takes the step, an int64 scalar, and gives a float32 scalar, computed in double. Gradients flow to a
// rate that is an input. Below, t is the step and N = decay_steps > 0. optim/schedule.h composes them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// The ops and their attributes:
//   PiecewiseRate    boundaries (a list of k ascending steps), values (a tensor of k + 1 float64):
//                    values[i], where i is the number of boundaries below t (as in TensorFlow, the value before a
//                    boundary still holds at it)
//   InterpolatedRate steps (a list of k >= 1 ascending steps), values (a tensor of k float64): the broken line through
//                    the points (steps[i], values[i]), constant before the first one and after the last one
//   ExponentialRate  initial, rate, decay_steps, staircase: initial rate^(t / N), or rate^floor(t / N) with staircase
//   PolynomialRate   initial, end, power, decay_steps: (initial - end) (1 - min(t, N) / N)^power + end
//   RampRate         initial, end, power, decay_steps: initial + (end - initial) (min(t, N) / N)^power
//   CosineRate       initial, floor, decay_steps: floor + (initial - floor) (1 + cos(pi min(t, N) / N)) / 2
//                    (Loshchilov and Hutter, "SGDR", 2017, without restarts)
//   WarmUpRate       start, warmup_steps; a second input is the rate, which is multiplied by
//                    start + (1 - start) (t + 1) / warmup_steps while t < warmup_steps
//                    (Goyal et al., "Accurate, large minibatch SGD", 2017)

// The value at `step` of a node of op `op`; `rate` is WarmUpRate's second input. InvalidArgument names the attribute
// that is out of range. REQUIRES: `op` is one of the above, with its attributes.
absl::StatusOr<double> RateAt(absl::string_view op, const Attrs& attrs, int64_t step, double rate = 0);

}  // namespace belfry::ops
