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
// with the averages, build the model again over them; nothing is copied:
//
//   ExponentialMovingAverage averages({.decay = 0.9999});
//   const Node* update = averages.Update(scope, variables, updates_of_the_step);   // run with every step
//   Output logits = Model(ExponentialMovingAverage::Averaged(Scope(graph)), images);
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
  // The scope for a network over the averages: layers find in the scope's replica the average of a variable, or the
  // variable itself if it has none (a batch norm's statistics).
  static Scope Averaged(const Scope& scope);

 private:
  MovingAverageOptions options_;
};

}  // namespace belfry::optim
