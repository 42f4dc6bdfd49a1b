// Moving averages of weights, which often generalise better than the weights themselves (Polyak and Juditsky, 1992).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::optim {

struct MovingAverageOptions {
  double decay = 0.999;
  bool use_step = true;  // decay = min(decay, (1 + n) / (10 + n)), n being the global step at that time: a short memory
                         // at first
};

// Exponential moving averages. The average of a variable is its slot "<variable>/ExponentialMovingAverage", which
// starts at the variable's initial value, or at the one that is written or restored before the first step. To evaluate
// with the averages, build the model again for a replica that no tower uses, and assign the averages to its variables
// before each evaluation; the training variables stay untouched:
//
//   ExponentialMovingAverage averages({.decay = 0.9999});
//   const Node* update = averages.Update(scope, variables, updates_of_the_step);   // run with every step
//   Output logits = Model(Scope(graph).Replica(kEvaluation), images);
//   const Node* take = averages.AssignTo(Scope(graph).Replica(kEvaluation), 0);     // run before evaluating
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(const MovingAverageOptions& options = {}) : options_(options) {}

  // Moves the averages towards the variables after all of `after` have run: the variables' updates, or the whole
  // train_op, which includes the global step's as in TensorFlow 1's tutorials. Null after an error.
  const Node* Update(OpScope scope, absl::Span<const Variable> variables, absl::Span<const Output> after) const;
  // The name of the average of the variable `name`.
  static std::string NameOf(absl::string_view name);
  // The average of a variable; an invalid Variable if it has none.
  static Variable AverageOf(const Scope& scope, const Variable& variable);
  // Assigns to every variable of the scope's replica the average of the variable of the same name in replica `from`, or
  // that variable itself if it has no average (a batch norm's statistics). Slots and the global step are left out. Null
  // after an error, which sticks to the graph: replica `from` lacks such a variable, or is the scope's replica.
  static const Node* AssignTo(OpScope scope, int from);

 private:
  MovingAverageOptions options_;
};

}  // namespace belfry::optim
