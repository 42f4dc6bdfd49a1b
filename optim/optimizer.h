// Optimizers: rules that update variables from their gradients.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "ops/training.h"
#include "optim/schedule.h"
#include "optim/variable_filter.h"

namespace belfry::optim {

// One update rule with its hyper-parameters. Immutable: slots and counts of updates are variables of the graph, so one
// optimizer serves any number of towers. Derived classes are in
// optim/{descent,rmsprop,adam,lars,lamb,muon}.h; clip.h (ClipWeights), lookahead.h and parameter_groups.h wrap other
// optimizers (WrappingOptimizer).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Adds the nodes that update `variable` by `gradient`, which has its dtype, on the variable's device, and returns the
  // variable's value after the update. The rate follows the global step of the variable's replica
  // (GlobalStep), and bias corrections the variable's own count of updates; the caller increments both after all
  // updates, by CountUpdates, as ApplyGradients does. Invalid after an error, which sticks to the graph.
  //
  // The variable may be a part of one (SliceOfVariable), with its part of the gradient: then slots are the tower's
  // share of the whole variable's. A rule that is not element-wise must refuse parts, or combine what it needs of them;
  // one that looks at the variable's shape must look at variable.whole()'s.
  //
  // The gradient is dense unless takes_sparse().
  virtual Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const = 0;
  // An error if this optimizer cannot train a model of these variables. ReplicateTowers asks.
  virtual absl::Status Check(absl::Span<const Variable> /*variables*/) const { return absl::OkStatus(); }
  // True if Apply takes sparse gradients, and then updates their rows only.
  virtual bool takes_sparse() const { return false; }
  // The name of the slot in which the updates of `variable`, or a part of one, are counted (UpdateCount). Empty: Apply
  // does not read it.
  virtual absl::string_view count_slot(const Variable& /*variable*/) const { return {}; }
  // Adds the nodes by which the rule moves a statistic of the model, such as a moving average of batch normalisation,
  // along with the variables: run them once in every step, after all of the statistic's own updates. Invalid: the rule
  // leaves statistics alone.
  virtual Output FollowStatistic(OpScope /*scope*/, const Variable& /*statistic*/) const { return Output(); }

  const Schedule& learning_rate() const { return learning_rate_; }

 protected:
  explicit Optimizer(Schedule learning_rate) : learning_rate_(std::move(learning_rate)) {}

 private:
  Schedule learning_rate_;
};

// The base of optimizers that wrap others, in which nothing has a default: what they do not pass on would be lost.
class WrappingOptimizer : public Optimizer {
 public:
  absl::Status Check(absl::Span<const Variable> variables) const override = 0;
  bool takes_sparse() const override = 0;
  absl::string_view count_slot(const Variable& variable) const override = 0;
  Output FollowStatistic(OpScope scope, const Variable& statistic) const override = 0;

 protected:
  using Optimizer::Optimizer;
};

// An optimizer of any class, which copies share. A value type: SharedOptimizer adam = Adam({.learning_rate = 0.01}).
class SharedOptimizer {
 public:
  template <class Rule, class = std::enable_if_t<std::is_base_of_v<Optimizer, Rule>>>
  SharedOptimizer(Rule rule)  // NOLINT(google-explicit-constructor): converts on purpose
      : optimizer_(std::make_shared<const Rule>(std::move(rule))) {}
  // REQUIRES: not null.
  explicit SharedOptimizer(std::unique_ptr<const Optimizer> optimizer) : optimizer_(std::move(optimizer)) {}
  const Optimizer& operator*() const { return *optimizer_; }
  const Optimizer* operator->() const { return optimizer_.get(); }

 private:
  std::shared_ptr<const Optimizer> optimizer_;
};

// For update rules: the weight decay of a variable; 0 if the filter rejects it. The filter sees the whole variable.
double Decay(double weight_decay, const VariableFilter& decays, const Variable& variable);

// The learning rate of this step: one node per schedule, for all replicas, so that a rate that is fed reaches them all.
// It follows the global step of the first replica that asks.
Output LearningRate(OpScope scope, const Schedule& schedule);

// For update rules: the variable "<variable>/<name>" with the shape, dtype, replica and device of `variable`, not
// trainable. Created with every element `initial`, or found again.
Variable Slot(const Scope& scope, const Variable& variable, absl::string_view name, double initial);
// The variable "<variable>/<name>", an int64 scalar that counts the updates of `variable`, or of its part: 0 at first.
// Created, or found again.
Variable UpdateCount(const Scope& scope, const Variable& variable, absl::string_view name);
// For update rules that are not element-wise: true if `variable` is a part of one, which is an error then. `needs`:
// "LARS needs the norm of".
bool RefusesPart(const Scope& scope, const Variable& variable, absl::string_view needs);
// For update rules: the scope for the update's node: named "update_<variable>" and colocated with the variable.
Scope UpdateScope(const Scope& scope, const Variable& variable);

}  // namespace belfry::optim
