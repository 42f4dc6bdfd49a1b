// Clipping of gradients (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013),
// of which invalid ones, which do not flow, are passed through; and of weights.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "optim/optimizer.h"

namespace belfry::optim {

// Clamps each element to [-limit, limit]; NaN stays NaN.
std::vector<Output> ClipByValue(OpScope scope, absl::Span<const Output> gradients, double limit);

// Scales each tensor whose Euclidean norm exceeds `clip_norm` > 0 down to it. A tensor with an element that is not
// finite becomes all NaN, and so does a float64 tensor whose norm exceeds the largest float64.
std::vector<Output> ClipByNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

struct ClippedByGlobalNorm {
  std::vector<Output> gradients;
  Output norm;  // of all gradients together before clipping, a float32 scalar (infinite if it exceeds the largest);
                // invalid if no gradient flows
};
// Scales all tensors, which have one dtype, by the same factor so that their joint norm is at most `clip_norm` > 0. If
// an element is not finite, all become NaN, so that the failure is visible; finite float32 gradients stay finite.
ClippedByGlobalNorm ClipByGlobalNorm(OpScope scope, absl::Span<const Output> gradients, double clip_norm);

// Updates variables by another optimizer, and then clamps the elements of those that `filter` selects to [low, high]:
// the critic of Arjovsky, Chintala and Bottou, "Wasserstein GAN", 2017, or weights that must not be negative. NaN stays
// NaN. Sparse gradients are made dense. It goes around a Lookahead, whose slow weights would leave the bounds
// otherwise.
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
