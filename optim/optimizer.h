// Optimizers: how a variable follows its gradient.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "framework/graph/scope.h"
#include "optim/schedule.h"

namespace belfry::optim {

// One update rule with its hyper-parameters. Const: slots are variables of the graph, steps are the graph's global
// step; so one optimizer serves any number of towers. Derived classes stand in optim/{descent,rmsprop,adam,lars}.h.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Adds the nodes that update `variable` by `gradient`, which has its shape and dtype, where the variable lives, and
  // returns the variable after the update. Rates and bias corrections follow GlobalStep(scope.Replica(variable's)),
  // which the caller increments after all updates (ApplyGradients does). Invalid after an error, which sticks to the
  // graph.
  virtual Output Apply(OpScope scope, const Variable& variable, Output gradient) const = 0;

  const Schedule& learning_rate() const { return learning_rate_; }

 protected:
  explicit Optimizer(Schedule learning_rate) : learning_rate_(std::move(learning_rate)) {}

 private:
  Schedule learning_rate_;
};

// Says which variables something applies to; null means all.
using VariableFilter = std::function<bool(const Variable&)>;
// Weights, not biases nor normalisation's scales: rank 2 or more.
bool IsWeight(const Variable& variable);

// For rules: the weight decay of a variable, 0 if the filter rejects it.
double Decay(double weight_decay, const VariableFilter& decays, const Variable& variable);

// The rate of this step for the scope's replica: one node per schedule and replica, however often it is asked for.
Output LearningRate(OpScope scope, const Schedule& schedule);

// For rules: the variable "<variable>/<name>" like `variable`, of its replica and beside it, not trained; made, filled
// with `initial`, or found again.
Variable Slot(const Scope& scope, const Variable& variable, absl::string_view name, double initial);
// For rules: where an update is added, "update_<variable>", colocated with the variable.
Scope UpdateScope(const Scope& scope, const Variable& variable);

}  // namespace belfry::optim
