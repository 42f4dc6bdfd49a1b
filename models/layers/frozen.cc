#include "models/layers/frozen.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
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

// Their items' paths are the patterns.
std::string FrozenIn(absl::string_view tower) { return absl::StrCat("frozen in ", tower); }
std::string TrainableIn(absl::string_view tower) { return absl::StrCat("trainable in ", tower); }

void AddPatterns(Graph& graph, const std::string& collection, absl::Span<const std::string> patterns) {
  for (const std::string& pattern : patterns) graph.AddToCollection(collection, {.path = pattern});
}

}  // namespace

void FreezeVariables(const Scope& tower, absl::Span<const std::string> patterns) {
  AddPatterns(tower.graph(), FrozenIn(tower.name()), patterns);
}

void FreezeOthers(const Scope& tower, absl::Span<const std::string> trainable) {
  AddPatterns(tower.graph(), TrainableIn(tower.name()), trainable);
}

bool IsFrozen(const Scope& scope, const Variable& variable) {
  const absl::string_view name = scope.name();
  const auto matches = [&](const CollectionItem& item) { return optim::MatchesPattern(variable.name(), item.path); };
  for (size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1)) {
    const absl::string_view tower = name.substr(0, end + 1);
    const auto trainable = scope.graph().collection(TrainableIn(tower));
    if (absl::c_any_of(scope.graph().collection(FrozenIn(tower)), matches)) return true;
    if (!trainable.empty() && absl::c_none_of(trainable, matches)) return true;
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

absl::Status CheckFrozen(const Scope& tower, absl::Span<const std::string> patterns,
                         absl::Span<const std::string> trainable) {
  if (patterns.empty() && trainable.empty()) return absl::OkStatus();
  std::vector<Variable> variables;
  for (const Variable& variable : tower.graph().variables()) {
    if (variable.replica() != tower.replica() || variable.def().slot_of != nullptr || optim::IsGlobalStep(variable))
      continue;
    if (absl::StartsWith(variable.name(), tower.variable_path())) variables.push_back(variable);
  }
  constexpr absl::string_view kFrozen = "ReplicateOptions::frozen (--freeze)";
  constexpr absl::string_view kTrainable = "ReplicateOptions::trainable (--trainable)";
  for (const auto& [option, given] : {std::pair(kFrozen, patterns), std::pair(kTrainable, trainable)}) {
    if (given.empty()) continue;
    RETURN_IF_ERROR(optim::CheckSelects(optim::NameMatches({given.begin(), given.end()}), variables, option));
  }
  if (!TrainedVariables(tower).empty()) return absl::OkStatus();
  if (trainable.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kFrozen, ": the patterns ", absl::StrJoin(patterns, ", "),
                     " match all trainable variables of the model, so nothing is left to train"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(kTrainable, ": the patterns ", absl::StrJoin(trainable, ", "),
                   " match no trainable variable of the model that is not frozen, so nothing is left to train"));
}

}  // namespace belfry::models
