// Loss scaling (Micikevicius et al., "Mixed precision training", 2018). The loss is multiplied by a large number before
// it is differentiated, so that gradients do not vanish in float16, whose smallest number is 6e-8; they are divided by
// it again before use. The dynamic rule seeks the largest scale that does not overflow: it halves the scale and skips
// the step when a gradient is not finite, and doubles the scale after many good steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "optim/apply.h"

namespace belfry::optim {

struct LossScaleOptions {
  double initial = 32768;  // powers of two do not change the bits of values within range
  bool dynamic = true;     // false: always `initial`; steps that overflow are still skipped
  double min_scale = 1;    // dynamic: the smallest and largest scale
  double max_scale = 16777216;
  int64_t growth_interval = 2000;  // dynamic: number of consecutive good steps before the scale doubles
};
// Parses "none" (nullopt), "dynamic", or a fixed scale: a number from 2^-126 to 2^126. InvalidArgument otherwise.
absl::StatusOr<std::optional<LossScaleOptions>> ParseLossScale(absl::string_view text);

// The loss scale of a training run, held in variables of each replica, which checkpoints save. A step applies either
// all updates or none; the decision is computed in the graph from averaged gradients, so it is the same in all
// replicas.
//
//   const LossScale scale(options);
//   auto gradients = ComputeGradients(tower, scale.Scale(tower, loss), variables);   // and average them over towers
//   auto [unscaled, finite] = scale.Unscale(scope, gradients);
//   const Node* apply = ApplyGradients(scope.OnlyIf(finite), optimizer, unscaled);
//   Output moved = scale.Update(scope, finite);                                      // run both
//
// Immutable; copying costs no more than its options.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options) : options_(options) {}

  // The variable "loss_scale" below the scope's variable path, in its replica, or "<name>/loss_scale" in a training
  // step with a name (Scope::InTrainStep): a float32 scalar, the scale of the next
  // step. It and its companions are created on first use, on the scope's device for variables. Options out of range are
  // an error, which sticks to the graph; the variable is then invalid.
  Variable Value(OpScope scope) const;
  // "loss_scale/skipped_steps", an int64 scalar: the number of steps skipped so far.
  Variable SkippedSteps(OpScope scope) const;

  // loss * scale; in float32 if the loss has 16 bits.
  Output Scale(OpScope scope, Output loss) const;

  struct Unscaled {
    std::vector<GradientAndVariable> gradients;  // divided by the scale, each in its own dtype
    Output finite;                               // bool scalar: true if all gradients are finite; invalid after an
                                                 // error
  };
  // Divides the gradients of a scaled loss by the scale. REQUIRES: at least one of them flows.
  Unscaled Unscale(OpScope scope, absl::Span<const GradientAndVariable> gradients) const;

  // Adds the node that updates the scale and the counts. It takes effect after everything that uses this step's scale.
  // Returns the scale after the update; invalid after an error.
  Output Update(OpScope scope, Output finite) const;

 private:
  LossScaleOptions options_;
};

}  // namespace belfry::optim
