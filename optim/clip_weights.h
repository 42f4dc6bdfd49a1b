// Weights within bounds, by any optimizer.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

// Updates variables by another optimizer, and then clamps the elements of those that `filter` selects to [low, high]:
// the critic of Arjovsky, Chintala and Bottou, "Wasserstein GAN", 2017, or weights that must not be negative. NaN stays
// NaN. Sparse gradients are made dense.
class ClipWeights : public WrappingOptimizer {
 public:
  // A null filter selects all. low > high is an error of Check and of the graph.
  ClipWeights(SharedOptimizer inner, double low, double high, VariableFilter filter = nullptr);
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;
  bool takes_sparse() const override { return false; }
  absl::string_view count_slot(const Variable& variable) const override { return inner_->count_slot(variable); }
  Output FollowStatistic(OpScope scope, const Variable& statistic) const override {
    return inner_->FollowStatistic(scope, statistic);
  }

 private:
  SharedOptimizer inner_;
  double low_, high_;
  VariableFilter filter_;
};

}  // namespace belfry::optim
