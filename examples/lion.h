// An optimizer of one's own: Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023), made of ops
// that are there.
#pragma once

#include "optim/optimizer.h"

struct LionOptions {
  belfry::optim::Schedule learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
};

// v -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay v);  m = beta2 m + (1 - beta2) g. Slot "<variable>/Lion" is m.
class Lion : public belfry::optim::Optimizer {
 public:
  explicit Lion(const LionOptions& options) : Optimizer(options.learning_rate), options_(options) {}
  belfry::Output Apply(belfry::OpScope scope, const belfry::Variable& variable,
                       const belfry::ops::Gradient& gradient) const override;

 private:
  const LionOptions options_;
};
