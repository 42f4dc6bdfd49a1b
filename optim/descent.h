// Gradient descent, with and without momentum. Formulas: ops/training.h.
#pragma once

#include "optim/optimizer.h"

namespace belfry::optim {

struct GradientDescentOptions {
  Schedule learning_rate = 0.01;
  double weight_decay = 0;     // times the variable, added to the gradient
  VariableFilter decays = {};  // the variables that weight decay applies to
};

class GradientDescent : public Optimizer {
 public:
  explicit GradientDescent(const GradientDescentOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }

 private:
  GradientDescentOptions options_;
};
using Sgd = GradientDescent;

struct MomentumOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0.9;
  bool use_nesterov = false;
  double weight_decay = 0;
  VariableFilter decays = {};
};

// Slot "<variable>/Momentum": the accumulator.
class Momentum : public Optimizer {
 public:
  explicit Momentum(const MomentumOptions& options = {});
  Output Apply(OpScope scope, const Variable& variable, const ops::Gradient& gradient) const override;
  bool takes_sparse() const override { return true; }

 private:
  MomentumOptions options_;
};

}  // namespace belfry::optim
