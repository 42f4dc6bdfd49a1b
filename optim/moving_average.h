// Moving averages of weights, which often generalise better than the weights (Polyak and Juditsky, 1992).
#pragma once

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

struct MovingAverageOptions {
  double decay = 0.999;
  bool use_step = true;  // decay = min(decay, (1 + n) / (10 + n)), n the global step when it runs: a short
                         // memory at first
};

// The average of a variable is its slot "<variable>/ExponentialMovingAverage", which begins at the variable's initial
// value. To evaluate on the averages, build the model once more for a replica that no tower has, and let its variables
// take them before an evaluation; training's own variables are never touched:
//
//   ExponentialMovingAverage averages({.decay = 0.9999});
//   const Node* update = averages.Update(scope, variables, updates_of_the_step);   // run with every step
//   Output logits = Model(Scope(graph).Replica(kEvaluation), images);
//   const Node* take = averages.AssignTo(Scope(graph).Replica(kEvaluation), 0);     // run before evaluating
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const MovingAverageOptions& options = {}) : options_(options) {}

  // Moves the averages towards the variables once all of `after` have run: the variables' updates, or the whole
  // train_op with the global step's, as in TensorFlow 1's tutorials. Null after an error.
  const Node* Update(OpScope scope, absl::Span<const Variable> variables, absl::Span<const Output> after) const;
  // The average of a variable, or an invalid Variable if it has none.
  static Variable AverageOf(const Scope& scope, const Variable& variable);
  // Gives every variable of the scope's replica the average of the variable of the same name in replica `from`, or the
  // variable itself where there is no average (a batch norm's statistics). Slots and the global step are left out. An
  // error, which sticks to the graph: replica `from` has no such variable, or it is the same replica. Null then.
  static const Node* AssignTo(OpScope scope, int from);

 private:
  MovingAverageOptions options_;
};

}  // namespace belfry::optim
