// Gradient descent whose rates and weight decay are set for each kind of variable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "optim/optimizer.h"

namespace belfry::trainers {

struct GroupedRates {
  // Peak rates: of all variables without their own; of the offsets of batch normalisation (beta), or, with Muon, of all
  // variables that are not matrices; of the last layer, logits/*. 0: the first.
  double learning_rate = 0.1, norm_learning_rate = 0, head_learning_rate = 0;
  // The share of a variable that a step at its peak rate takes away, whatever the rate: weight_decay / rate is added to
  // the gradient. Muon's variables are exempt.
  double weight_decay = 0;
  double momentum = 0.9;
  bool nesterov = false;
  // Muon, with three iterations and filters of constant norm, for all matrices except the last layer's; the rest
  // takes Nesterov's momentum 0.85 (Jordan, airbench94_muon, 2024).
  bool muon = false;
  std::function<optim::Schedule(double peak)> schedule = {};
  // The schedule of whiten/biases, if the model has them; null: `schedule`.
  std::function<optim::Schedule(double peak)> whiten_schedule = {};
};

// The optimizer for a model with variables of each kind that has a rate.
std::unique_ptr<optim::Optimizer> MakeGroupedOptimizer(const GroupedRates& rates);

}  // namespace belfry::trainers
