// Groups of variables with optimizers of their own.
#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace belfry::optim {

struct ParameterGroup {
  VariableFilter filter;
  SharedOptimizer optimizer;
};

// Updates each variable by the optimizer of the first group whose filter selects it, or else by `rest`. Groups
// may have rates, schedules, weight decays and rules of their own:
//
//   optim::ParameterGroups optimizer({{optim::NameMatches("encoder/*"), optim::AdamW({.learning_rate = 1e-5})},
//                                     {optim::IsWeight, optim::Muon({.learning_rate = 0.02})}},
//                                    optim::AdamW({.learning_rate = 1e-3}));
//
// TrainStep::learning_rate is the rate of `rest`; a rate that is fed there reaches the groups that have the same
// schedule. The adjustable rates (Adjustable) of all groups are one. Gradients are sparse only if every group takes
// them. Statistics follow the group whose filter selects them, or else `rest`. A group that gets no trainable variable
// of the model is an error of Check.
class ParameterGroups : public WrappingOptimizer {
 public:
  ParameterGroups(std::vector<ParameterGroup> groups, SharedOptimizer rest);
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;
  bool takes_sparse() const override;
  absl::string_view count_slot(const Variable& variable) const override;
  Output FollowStatistic(OpScope scope, const Variable& statistic) const override;

 private:
  // The index of its group; `rest` has groups_.size().
  size_t GroupOf(const Variable& variable) const;
  const Optimizer& OptimizerOf(size_t group) const {
    return group < groups_.size() ? *groups_[group].optimizer : *rest_;
  }

  std::vector<ParameterGroup> groups_;
  SharedOptimizer rest_;
};

}  // namespace belfry::optim
