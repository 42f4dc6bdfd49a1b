#include "optim/parameter_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::optim {

ParameterGroups::ParameterGroups(std::vector<ParameterGroup> groups, SharedOptimizer rest)
    : WrappingOptimizer(rest->learning_rate()), groups_(std::move(groups)), rest_(std::move(rest)) {}

size_t ParameterGroups::GroupOf(const Variable& variable) const {
  size_t group = 0;
  while (group < groups_.size() && groups_[group].filter != nullptr && !groups_[group].filter(variable.whole()))
    ++group;
  return group;
}

Output ParameterGroups::Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const {
  return OptimizerOf(GroupOf(variable)).Apply(scope, variable, gradient);
}

absl::Status ParameterGroups::Check(absl::Span<const Variable> variables) const {
  std::vector<std::vector<Variable>> chosen(groups_.size() + 1);
  for (const Variable& variable : variables) chosen[GroupOf(variable)].push_back(variable);
  for (size_t i = 0; i <= groups_.size(); ++i) {
    if (i < groups_.size()) {
      const std::string name = absl::StrCat("Parameter group ", i);
      RETURN_IF_ERROR(CheckSelects(groups_[i].filter, variables, name));
      if (chosen[i].empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": earlier groups take all variables that its filter selects; put it before them"));
      }
    }
    RETURN_IF_ERROR(OptimizerOf(i).Check(chosen[i]));
  }
  return absl::OkStatus();
}

bool ParameterGroups::takes_sparse() const {
  return rest_->takes_sparse() && std::all_of(groups_.begin(), groups_.end(), [](const ParameterGroup& group) {
           return group.optimizer->takes_sparse();
         });
}

absl::string_view ParameterGroups::count_slot(const Variable& variable) const {
  return OptimizerOf(GroupOf(variable)).count_slot(variable);
}

Output ParameterGroups::FollowStatistic(OpScope scope, const Variable& statistic) const {
  return OptimizerOf(GroupOf(statistic)).FollowStatistic(scope, statistic);
}

}  // namespace belfry::optim
