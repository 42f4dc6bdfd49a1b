// The updates of one copy of the variables by the averaged gradients. Internal to models.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "models/towers/averaging.h"
#include "models/towers/following.h"
#include "models/towers/replicate_towers.h"
#include "optim/apply.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"

namespace belfry::models {

// Made before the models that read the copy, because their own updates of variables also depend on condition(). Then
// its methods are called in this order. Errors stick to the graph.
class TowerUpdates {
 public:
  // `scope`: for the updates. `tower`: one that reads the copy, and takes part in collectives for it. `loss_scale`
  // is borrowed; null: no loss is scaled.
  TowerUpdates(const Scope& scope, const TowerRank& tower, const ReplicateOptions& options,
               const optim::LossScale* loss_scale);

  const Scope& scope() const { return scope_; }
  // With loss scaling a bool scalar, true if this step is not skipped; otherwise invalid.
  Output condition() const { return condition_; }
  // True if each tower updates its part of the variables, and all gather the parts.
  bool sharded() const { return sharded_; }

  // The variables of the copy that follow others, known once the model is built.
  void SetFollowers(std::vector<Follower> followers) { followers_ = std::move(followers); }
  absl::Span<const Follower> followers() const { return followers_; }

  // Makes a step in which all of the towers' weights are 0 an error, before it updates a variable, except for weights
  // that are stated and computed on GPUs. `who`: "The step".
  void CheckWeights(absl::Span<const BuiltTower> towers, absl::string_view who);
  // Divides the gradients by the loss scale, if there is one, and gives condition() its value: all are finite.
  std::vector<optim::GradientAndVariable> Unscale(std::vector<optim::GradientAndVariable> gradients);
  // Clips the gradients and applies them, then moves the exponential moving averages of the variables `averaged`.
  // Returns the node that runs all updates; null after an error. `buckets`: of a sharded optimizer.
  const Node* Apply(const optim::Optimizer& optimizer, std::vector<optim::GradientAndVariable> gradients,
                    const GradientBuckets& buckets, absl::Span<const Variable> averaged);
  // Moves the followers after the nodes `after`, all updates of the copy. Null after an error.
  const Node* Follow(absl::Span<const Node* const> after) const;

 private:
  // By index into `gradients`, invalid for variables that were never in ReplicateOptions::frozen_until: the variable is
  // updated in this step.
  std::vector<Output> Thawed(absl::Span<const optim::GradientAndVariable> gradients) const;
  void Clip(std::vector<optim::GradientAndVariable>& gradients, absl::Span<const Output> thawed) const;
  const Node* ApplyToParts(const optim::Optimizer& optimizer, absl::Span<const optim::GradientAndVariable> parts,
                           const GradientBuckets& buckets, absl::Span<const Output> thawed) const;

  Scope scope_;
  const TowerRank tower_;
  const ReplicateOptions options_;
  const bool sharded_;
  const optim::LossScale* const loss_scale_;
  Output condition_;
  std::vector<Follower> followers_;
  Output scale_moved_;  // the loss scale after its update; invalid without
};

}  // namespace belfry::models
