#include "trainers/grouped_rates.h"

#include <utility>
#include <vector>

#include "optim/descent.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"

namespace belfry::trainers {

std::unique_ptr<optim::Optimizer> MakeGroupedOptimizer(const GroupedRates& rates) {
  constexpr double kMomentumBesideMuon = 0.85;
  const auto rate_or = [&](double rate) { return rate > 0 ? rate : rates.learning_rate; };
  const auto momentum = [&](double rate, const optim::Schedule& schedule) {
    return optim::Momentum({.learning_rate = schedule,
                            .momentum = rates.muon ? kMomentumBesideMuon : rates.momentum,
                            .use_nesterov = rates.muon || rates.nesterov,
                            .weight_decay = rates.weight_decay / rate});
  };
  std::vector<optim::ParameterGroup> groups;
  const double norm = rate_or(rates.norm_learning_rate), head = rate_or(rates.head_learning_rate);
  if (rates.whiten_schedule) {
    const double rate = rates.muon ? norm : rates.learning_rate;
    groups.push_back({optim::NameMatches("whiten/biases"), momentum(rate, rates.whiten_schedule(rate))});
  }
  if (rates.muon) {
    const auto no_weight = [](const Variable& variable) { return !optim::IsWeight(variable); };
    groups.push_back({no_weight, momentum(norm, rates.schedule(norm))});
  } else if (rates.norm_learning_rate > 0) {
    groups.push_back({optim::NameMatches("*/beta"), momentum(norm, rates.schedule(norm))});
  }
  if (rates.muon || rates.head_learning_rate > 0) {
    groups.push_back({optim::NameMatches("logits/*"), momentum(head, rates.schedule(head))});
  }
  const optim::Schedule schedule = rates.schedule(rates.learning_rate);
  if (rates.muon) {
    const optim::Muon muon({.learning_rate = schedule, .momentum = rates.momentum, .iterations = 3, .normalise = true});
    return std::make_unique<optim::ParameterGroups>(std::move(groups), muon);
  }
  return std::make_unique<optim::ParameterGroups>(std::move(groups), momentum(rates.learning_rate, schedule));
}

}  // namespace belfry::trainers
