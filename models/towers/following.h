// Variables that follow others of the same model, as a target network does (ReplicateOptions::follow). Internal to
// models.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "models/towers/replicate_towers.h"

namespace belfry::models {

struct Follower {
  Variable variable, of;
  const Following* rule = nullptr;  // among the options'
};

// InvalidArgument for patterns, a decay or a number that cannot be.
absl::Status CheckFollowing(const Following& rule);
// Freezes what follows, before the tower's model is built.
void FreezeFollowers(const Scope& tower, absl::Span<const Following> rules);
// The followers of the scope's replica, which begin as their counterparts from now on. `options` must outlive them.
// InvalidArgument: ReplicateOptions::follow says.
absl::StatusOr<std::vector<Follower>> Followers(const Scope& tower, const ReplicateOptions& options);
// Notes what a training step trains and what follows in it. InvalidArgument if a step of the graph trains what follows
// in another.
absl::Status CheckNotTrained(Graph& graph, absl::Span<const Variable> trained, absl::Span<const Follower> followers);
// InvalidArgument if one follows a statistic that `updates` move in the replica of one device only.
absl::Status CheckFollowedStatistics(absl::Span<const Follower> followers, absl::Span<const Node* const> updates);

}  // namespace belfry::models
