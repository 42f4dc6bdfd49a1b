// RMSProp and Adagrad: rates per element from past squared gradients. Formulas: ops/training.h.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct RMSPropOptions {
  Schedule learning_rate = 0.001;
  double decay = 0.9;
  double momentum = 0;
  double epsilon = 1e-10;
  double weight_decay = 0;     // times the variable, added to the gradient
  VariableFilter decays = {};  // the variables that weight decay applies to
};

// Slots "<variable>/RMSProp", the mean square, which starts at 1, and "<variable>/RMSProp_1", the momentum.
class RMSProp : public Optimizer {
 public:
  explicit RMSProp(const RMSPropOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }

 private:
  RMSPropOptions options_;
};

struct AdagradOptions {
  Schedule learning_rate = 0.01;
  double initial_accumulator = 0.1;  // must be positive
  double weight_decay = 0;
  VariableFilter decays = {};
};

// Slot "<variable>/Adagrad": the sum of squares, which starts at initial_accumulator.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }

 private:
  AdagradOptions options_;
};

}  // namespace belfry::optim
