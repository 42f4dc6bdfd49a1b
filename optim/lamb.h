// LAMB: Adam with layer-wise adaptive rates, for large batches.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct LambOptions {
  Schedule learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  // The variables that the trust ratio and weight decay apply to; others follow Adam.
  VariableFilter adapts = IsWeight;
};

// m = beta1 m + (1 - beta1) g; s = beta2 s + (1 - beta2) g^2;
// u = (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon) + weight_decay v; v -= lr trust u
// with trust = |v| / |u|, or 1 if either norm is 0 (You et al., "Large batch optimization for deep learning: training
// BERT in 76 minutes", 2020). Composed of element-wise ops and norms, in float32 for variables of 16 bits.
//
// Slots "<variable>/Lamb" and "<variable>/Lamb_1": m and s. It needs whole variables, so its state cannot be divided
// among towers.
class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  absl::Status Check(absl::Span<const Variable> variables) const override;
  absl::string_view count_slot(const Variable&) const override { return "Lamb_updates"; }

 private:
  LambOptions options_;
};

}  // namespace belfry::optim
