#include "models/layers/frozen.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "optim/apply.h"
#include "optim/global_step.h"
#include "optim/variable_filter.h"

namespace belfry::models {
namespace {

// Collections of the names of variables, of all training steps of the graph.
constexpr absl::string_view kMovedStatistics = "moved statistics", kFrozenStatistics = "frozen statistics";

// Its items' paths are the patterns.
std::string CollectionOf(absl::string_view tower) { return absl::StrCat("frozen in ", tower); }

}  // namespace

void FreezeVariables(const Scope& tower, absl::Span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    tower.graph().AddToCollection(CollectionOf(tower.name()), {.path = pattern});
  }
}

bool IsFrozen(const Scope& scope, const Variable& variable) {
  const absl::string_view name = scope.name();
  for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1)) {
    for (const CollectionItem& item : scope.graph().collection(CollectionOf(name.substr(0, end + 1)))) {
      if (optim::MatchesPattern(variable.name(), item.path)) return true;
    }
  }
  return false;
}

bool UpdatesFrozen(const Scope& tower, const Node& update) {
  if (update.inputs().empty()) return false;
  const Node& first = *update.input(0).node;
  return first.op().role == OpRole::kVariable && IsFrozen(tower, tower.graph().VariableOf(first));
}

std::vector<Variable> TrainedVariables(const Scope& tower) {
  std::vector<Variable> trained;
  for (const Variable& variable : optim::TrainableVariables(tower)) {
    if (!IsFrozen(tower, variable)) trained.push_back(variable);
  }
  return trained;
}

absl::Status CheckFrozenStatistics(const Scope& tower, absl::Span<const Node* const> updates) {
  Graph& graph = tower.graph();
  for (const Node* const update : updates) {
    const Node* const first = update->inputs().empty() ? nullptr : update->input(0).node;
    if (first == nullptr || first->op().role != OpRole::kVariable) continue;
    graph.AddToCollection(kMovedStatistics, {.path = graph.VariableOf(*first).name()});
  }
  for (const Variable& variable : graph.variables()) {
    const bool statistic = !variable.trainable() && variable.def().slot_of == nullptr;
    if (variable.replica() != tower.replica() || !statistic || !IsFrozen(tower, variable)) continue;
    graph.AddToCollection(kFrozenStatistics, {.path = variable.name()});
  }
  for (const CollectionItem& frozen : graph.collection(kFrozenStatistics)) {
    for (const CollectionItem& moved : graph.collection(kMovedStatistics)) {
      if (frozen.path != moved.path) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          frozen.path, " is frozen in one training step (ReplicateOptions::frozen), but another moves it, and in the ",
          "replica of one device only. Train that one with BatchNormPolicy::kSynchronised, or on one device"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFrozen(const Scope& tower, absl::Span<const std::string> patterns) {
  if (patterns.empty()) return absl::OkStatus();
  std::vector<Variable> variables;
  for (const Variable& variable : tower.graph().variables()) {
    if (variable.replica() != tower.replica() || variable.def().slot_of != nullptr || optim::IsGlobalStep(variable))
      continue;
    if (absl::StartsWith(variable.name(), tower.variable_path())) variables.push_back(variable);
  }
  RETURN_IF_ERROR(optim::CheckSelects(optim::NameMatches({patterns.begin(), patterns.end()}), variables,
                                      "ReplicateOptions::frozen (--freeze)"));
  if (!TrainedVariables(tower).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ReplicateOptions::frozen (--freeze): the patterns ", absl::StrJoin(patterns, ", "),
                   " match all trainable variables of the model, so nothing is left to train"));
}

}  // namespace belfry::models
