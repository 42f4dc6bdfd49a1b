// Lookahead: slow weights that follow another optimizer's weights.
#pragma once

#include <cstdint>

#include "optim/optimizer.h"

namespace belfry::optim {

struct LookaheadOptions {
  int64_t steps = 5;  // of the inner optimizer between two of the slow weights; at least 1
  // The slow weights' share of the way, from 0 to 1, by the number of updates.
  Schedule alpha = 0.5;
};

// Updates variables by any optimizer and, after every `steps` updates, moves the slow weights a part of the way to them
// and sets the variables to these:
//   slow += alpha (v - slow); v = slow
// (Zhang, Lucas, Hinton and Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019). The slow weights begin as
// the variable is at its first update; the slots of the inner optimizer go on as they are. In between the variables are
// the inner optimizer's, so evaluate after a multiple of `steps`. Statistics of a model, as the moving averages of
// batch normalisation, follow in the same way, so that they stay those of the weights.
//
// Slot "<variable>/Lookahead": the slow weights; and a count of updates, that of the inner optimizer if it has one, or
// else "<variable>/Lookahead_updates".
class Lookahead : public WrappingOptimizer {
 public:
  explicit Lookahead(SharedOptimizer inner, const LookaheadOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;
  bool takes_sparse() const override { return inner_->takes_sparse(); }
  absl::string_view count_slot(const Variable& variable) const override;
  Output FollowStatistic(OpScope scope, const Variable& statistic) const override;

 private:
  // Moves the slow weights and the variable once `fast`, the variable after an update, is there. `updates`: the number
  // of those before it. `before`: the slow weights.
  Output Settle(const Scope& update, const Variable& variable, const Variable& slow, Output before, Output fast,
                Output updates) const;
  absl::Status CheckOptions() const;

  SharedOptimizer inner_;
  LookaheadOptions options_;
};

}  // namespace belfry::optim
