// Adam, and AdamW with decoupled weight decay. Formulas: ops/training.h.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct AdamOptions {
  Schedule learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;     // times the variable, added to the gradient
  VariableFilter decays = {};  // the variables that weight decay applies to
};

// Slots "<variable>/Adam" and "<variable>/Adam_1": the first and the second moment. "<variable>/Adam_updates"
// counts the variable's updates, by which the moments' bias is corrected, in whatever steps they happen.
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }
  absl::string_view count_slot(const Variable&) const override { return "Adam_updates"; }

 private:
  AdamOptions options_;
};

struct AdamWOptions {
  Schedule learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;        // times the learning rate and the variable, subtracted from the variable
  VariableFilter decays = IsWeight;  // the variables that weight decay applies to
};

// Slots "<variable>/AdamW" and "<variable>/AdamW_1": the first and the second moment; "<variable>/AdamW_updates" as
// Adam's.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }
  absl::string_view count_slot(const Variable&) const override { return "AdamW_updates"; }

 private:
  AdamWOptions options_;
};

}  // namespace belfry::optim
