// Lookahead: slow weights that follow those of another optimizer.
#pragma once

#include <cstdint>

#include "optim/optimizer.h"

namespace belfry::optim {

struct LookaheadOptions {
  int64_t steps = 5;   // of the inner optimizer between two of the slow weights; at least 1
  double alpha = 0.5;  // the slow weights' share of the way, in (0, 1]
};

// Updates variables by any optimizer and, after every `steps` updates, moves the slow weights a part of the way to them
// and sets the variables to these:
//   slow += alpha (v - slow); v = slow
// (Zhang, Lucas, Hinton and Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019). The slow weights begin as
// the variable is at its first update; the slots of the inner optimizer go on as they are. In between the variables are
// the inner optimizer's, so evaluate after a multiple of `steps`.
//
// Slot "<variable>/Lookahead": the slow weights; and a count of updates, that of the inner optimizer if it has one, or
// else "<variable>/Lookahead_updates".
class Lookahead : public Optimizer {
 public:
  explicit Lookahead(SharedOptimizer inner, const LookaheadOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;
  bool takes_sparse() const override { return inner_->takes_sparse(); }
  absl::string_view count_slot(const Variable& variable) const override;

 private:
  absl::Status CheckOptions() const;

  SharedOptimizer inner_;
  LookaheadOptions options_;
};

}  // namespace belfry::optim
