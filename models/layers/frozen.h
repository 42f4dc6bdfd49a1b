// Frozen variables, which the training of a model leaves unchanged.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry::models {

// Freezes the variables of a tower's model whose names match a pattern (optim::MatchesPattern). Called on the tower's
// scope, before its model is built there; ReplicateTowers does, by ReplicateOptions::frozen.
void FreezeVariables(const Scope& tower, absl::Span<const std::string> patterns);
// Freezes those that match none of these patterns, if there are any: ReplicateOptions::trainable.
void FreezeOthers(const Scope& tower, absl::Span<const std::string> trainable);
// True if the variable is frozen in the tower whose scope this one is below. Layers that move variables by other means
// than gradients ask it, as BatchNorm does.
bool IsFrozen(const Scope& scope, const Variable& variable);
// True if a node of kUpdateOps updates a frozen variable.
bool UpdatesFrozen(const Scope& tower, const Node& update);
// The trainable variables of the scope's replica, below its variable path, that are not frozen in this tower.
std::vector<Variable> TrainedVariables(const Scope& tower);
// InvalidArgument if a pattern of either matches no variable of the model below the scope's variable path, or if
// nothing trainable is left.
absl::Status CheckFrozen(const Scope& tower, absl::Span<const std::string> patterns,
                         absl::Span<const std::string> trainable);
// Compares a training step, whose `updates` change the statistics of one of several replicas, with all that the graph
// had before: InvalidArgument if one of them freezes statistics that another moves, since the other replicas would
// normalise by what they began with.
absl::Status CheckFrozenStatistics(const Scope& tower, absl::Span<const Node* const> updates);

}  // namespace belfry::models
