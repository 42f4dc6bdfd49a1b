#include "models/towers/following.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/layers/frozen.h"
#include "optim/global_step.h"
#include "optim/variable_filter.h"

namespace belfry::models {
namespace {

// Collections of the names of variables, of all training steps of the graph.
constexpr absl::string_view kTrainedNames = "trained variables", kFollowerNames = "followers";

absl::Status Wrong(const Following& rule, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("ReplicateOptions::follow, '", rule.variables, "' of '", rule.of, "': ", why));
}

// The name of the counterpart of a variable that matches.
std::string CounterpartOf(const Following& rule, absl::string_view name) {
  const size_t star = rule.variables.find('*'), other = rule.of.find('*');
  if (star == std::string::npos) return rule.of;
  const absl::string_view text = name.substr(star, name.size() - rule.variables.size() + 1);
  return absl::StrCat(rule.of.substr(0, other), text, rule.of.substr(other + 1));
}

absl::StatusOr<Follower> FollowerOf(const Following& rule, const Variable& variable, const Graph& graph) {
  const std::string other = CounterpartOf(rule, variable.name());
  const Variable of = graph.FindVariable(other, variable.replica());
  const auto wrong = [&](absl::string_view why) {
    return Wrong(rule, absl::StrCat(variable.name(), " would follow ", other, ", ", why));
  };
  if (!of.valid()) return wrong("but the model has no variable of this name");
  if (of == variable) return wrong("which is itself");
  if (of.shape() != variable.shape() || of.dtype() != variable.dtype()) {
    return wrong(absl::StrCat("but is ", DTypeName(variable.dtype()), " ", variable.shape().ToString(),
                              ", and that is ", DTypeName(of.dtype()), " ", of.shape().ToString()));
  }
  if (rule.decay > 0 && !IsFloating(variable.dtype())) {
    return wrong(absl::StrCat("but is ", DTypeName(variable.dtype()), ", which can only be copied, by a decay of 0"));
  }
  return Follower{variable, of, &rule};
}

}  // namespace

absl::Status CheckFollowing(const Following& rule) {
  const auto stars = absl::c_count(rule.variables, '*');
  if (stars > 1 || stars != absl::c_count(rule.of, '*') || absl::StrContains(rule.variables, '?')) {
    return Wrong(rule, "expected one * in both patterns, or two names");
  }
  if (!(rule.decay >= 0 && rule.decay < 1)) {
    return Wrong(rule, absl::StrCat("the decay is ", rule.decay, "; expected a number in [0, 1), 0 for copies"));
  }
  if (rule.every < 1) return Wrong(rule, absl::StrCat("every ", rule.every, " steps; expected at least 1"));
  return absl::OkStatus();
}

void FreezeFollowers(const Scope& tower, absl::Span<const Following> rules) {
  for (const Following& rule : rules) FreezeVariables(tower, {rule.variables});
}

absl::StatusOr<std::vector<Follower>> Followers(const Scope& tower, const ReplicateOptions& options) {
  std::vector<Variable> variables;
  for (const Variable& variable : tower.graph().variables()) {
    const bool of_model = variable.def().slot_of == nullptr && !variable.transient() && !optim::IsGlobalStep(variable);
    if (of_model && variable.replica() == tower.replica()) variables.push_back(variable);
  }
  std::vector<Follower> followers;
  const auto follows = [&](const Variable& variable) {
    return absl::c_any_of(followers, [&](const Follower& follower) { return follower.variable == variable; });
  };
  for (const Following& rule : options.follow) {
    const optim::NameMatches matches(std::vector<std::string>{rule.variables});
    RETURN_IF_ERROR(optim::CheckSelects(matches, variables, "ReplicateOptions::follow"));
    for (const Variable& variable : variables) {
      if (!matches(variable)) continue;
      if (follows(variable)) return Wrong(rule, absl::StrCat(variable.name(), " follows another variable already"));
      for (const std::string& pattern : options.trainable) {
        if (!optim::MatchesPattern(variable.name(), pattern)) continue;
        return Wrong(rule, absl::StrCat(variable.name(), " would also be trained, by the pattern '", pattern,
                                        "' of ReplicateOptions::trainable"));
      }
      ASSIGN_OR_RETURN(const Follower follower, FollowerOf(rule, variable, tower.graph()));
      followers.push_back(follower);
    }
  }
  for (const auto& [variable, of, rule] : followers) {
    if (!follows(of)) continue;
    return Wrong(*rule, absl::StrCat(variable.name(), " would follow ", of.name(), ", which follows another itself"));
  }
  for (const auto& [variable, of, rule] : followers) {
    if (of.def().initial_value.valid()) BeginAs(tower, variable, of);
  }
  return followers;
}

absl::Status CheckNotTrained(Graph& graph, absl::Span<const Variable> trained, absl::Span<const Follower> followers) {
  for (const Variable& variable : trained) graph.AddToCollection(kTrainedNames, {.path = variable.name()});
  for (const Follower& follower : followers) graph.AddToCollection(kFollowerNames, {.path = follower.variable.name()});
  for (const CollectionItem& follower : graph.collection(kFollowerNames)) {
    const auto same = [&](const CollectionItem& other) { return other.path == follower.path; };
    if (!absl::c_any_of(graph.collection(kTrainedNames), same)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        follower.path, " follows another variable in one training step (ReplicateOptions::follow), and is trained in ",
        "another; freeze it there (ReplicateOptions::frozen)"));
  }
  return absl::OkStatus();
}

absl::Status CheckFollowedStatistics(absl::Span<const Follower> followers, absl::Span<const Node* const> updates) {
  for (const auto& [variable, of, rule] : followers) {
    const auto moves = [node = &of.node()](const Node* update) {
      return !update->inputs().empty() && update->input(0).node == node;
    };
    if (!absl::c_any_of(updates, moves)) continue;
    return Wrong(*rule,
                 absl::StrCat(variable.name(), " would follow ", of.name(), ", which moves in the replica of one ",
                              "device only; choose BatchNormPolicy::kSynchronised, or one device"));
  }
  return absl::OkStatus();
}

}  // namespace belfry::models
