// Loss scaling (Micikevicius et al., "Mixed precision training", 2018): a loss that is multiplied by a large number
// before it is differentiated has gradients that do not vanish in float16, whose smallest number is 6e-8. They are
// divided by it again before they are used. The dynamic rule looks for the largest scale that does not overflow: it is
// halved, and the step skipped, whenever a gradient is not finite, and doubled after many steps in which all were.
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
  double initial = 32768;  // powers of two change no bit of what is within range
  bool dynamic = true;     // else `initial` for good; a step that overflows is skipped all the same
  double min_scale = 1;    // dynamic: the bounds
  double max_scale = 16777216;
  int64_t growth_interval = 2000;  // dynamic: good steps in a row after which it doubles
};
// "none", "dynamic", or the number of a fixed scale, above 0.
absl::StatusOr<std::optional<LossScaleOptions>> ParseLossScale(absl::string_view text);

// The scale of a training, as variables of each replica, which checkpoints keep. A step skips all updates or none: what
// decides is computed in the graph, from gradients after averaging, so alike in all replicas.
//
//   const LossScale scale(options);
//   auto gradients = ComputeGradients(tower, scale.Scale(tower, loss), variables);   // and average them over towers
//   auto [unscaled, finite] = scale.Unscale(scope, gradients);
//   const Node* apply = ApplyGradients(scope.OnlyIf(finite), optimizer, unscaled);
//   Output moved = scale.Update(scope, finite);                                      // run both
//
// Const; as cheap to copy as its options.
class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options) : options_(options) {}

  // The variable "loss_scale" below the scope's variable path, of its replica: a float32 scalar, that of the next step.
  // It and those beside it are made when they are first asked for, on the scope's device for variables. Options out of
  // range are an error, which sticks to the graph; the variable is then invalid.
  Variable Value(const Scope& scope) const;
  // "loss_scale/skipped_steps": an int64 scalar, how many steps have been skipped.
  Variable SkippedSteps(const Scope& scope) const;

  // loss * scale; float32 if the loss has 16 bits.
  Output Scale(OpScope scope, Output loss) const;

  struct Unscaled {
    std::vector<GradientAndVariable> gradients;  // divided by the scale, each in its dtype
    Output finite;                               // bool scalar: all of them are; invalid after an error
  };
  // Of the gradients of a scaled loss; at least one flows.
  Unscaled Unscale(OpScope scope, absl::Span<const GradientAndVariable> gradients) const;

  // Moves the scale and counts, once all that needs this step's have run.
  Output Update(OpScope scope, Output finite) const;

 private:
  LossScaleOptions options_;
};

}  // namespace belfry::optim
