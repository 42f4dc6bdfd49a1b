// LARS: layer-wise adaptive rates for large batches. Formula: ops/training.h.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct LarsOptions {
  Schedule learning_rate = 0.1;
  double momentum = 0.9;
  double trust_coefficient = 0.001;
  double epsilon = 0;
  double weight_decay = 1e-4;
  // The variables that the trust ratio and weight decay apply to; others follow plain momentum.
  VariableFilter adapts = IsWeight;
};

// Slot "<variable>/Lars": the accumulator.
class Lars : public Optimizer {
 public:
  explicit Lars(const LarsOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;

 private:
  LarsOptions options_;
};

}  // namespace belfry::optim
