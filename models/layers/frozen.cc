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
