#include "trainers/program/optimizer_choice.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lookahead.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"

namespace belfry::trainers {
namespace {

using OptimizerPtr = std::unique_ptr<optim::Optimizer>;
using OptimizerMaker = OptimizerPtr (*)(const OptimizerChoice&);

double MomentumOf(const OptimizerChoice& choice, double otherwise) {
  return choice.momentum < 0 ? otherwise : choice.momentum;
}

OptimizerPtr MakeMomentum(const OptimizerChoice& choice, bool nesterov) {
  return std::make_unique<optim::Momentum>(optim::MomentumOptions{.learning_rate = choice.learning_rate,
                                                                  .momentum = MomentumOf(choice, 0.9),
                                                                  .use_nesterov = nesterov,
                                                                  .weight_decay = choice.weight_decay,
                                                                  .decays = optim::IsWeight});
}

template <class Rule, class Options>
OptimizerPtr MakeAdam(const OptimizerChoice& choice) {
  return std::make_unique<Rule>(Options{.learning_rate = choice.learning_rate,
                                        .beta2 = choice.beta2,
                                        .weight_decay = choice.weight_decay,
                                        .decays = optim::IsWeight});
}

OptimizerPtr MakeLamb(const OptimizerChoice& choice) {
  return std::make_unique<optim::Lamb>(optim::LambOptions{
      .learning_rate = choice.learning_rate, .beta2 = choice.beta2, .weight_decay = choice.weight_decay});
}

OptimizerPtr MakeLars(const OptimizerChoice& choice) {
  return std::make_unique<optim::Lars>(optim::LarsOptions{
      .learning_rate = choice.learning_rate, .momentum = MomentumOf(choice, 0.9), .weight_decay = choice.weight_decay});
}

// Its updates are as large as AdamW's, so that one rate is right for both.
OptimizerPtr MakeMuon(const OptimizerChoice& choice) {
  const optim::Muon muon({.learning_rate = choice.learning_rate,
                          .momentum = MomentumOf(choice, 0.95),
                          .weight_decay = choice.weight_decay,
                          .match_adamw = true});
  const auto hidden = [filter = choice.hidden](const Variable& variable) {
    return optim::IsWeight(variable) && (filter == nullptr || filter(variable));
  };
  const optim::AdamW rest({.learning_rate = choice.learning_rate,
                           .beta2 = choice.beta2,
                           .weight_decay = choice.weight_decay,
                           .decays = optim::IsWeight});
  return std::make_unique<optim::ParameterGroups>(std::vector<optim::ParameterGroup>{{hidden, muon}}, rest);
}

constexpr std::array<absl::string_view, 8> kNames = {"descent", "momentum", "nesterov", "adam",
                                                     "adamw",   "lars",     "lamb",     "muon"};
constexpr std::array<OptimizerMaker, 8> kMake = {
    [](const OptimizerChoice& choice) -> OptimizerPtr {
      return std::make_unique<optim::GradientDescent>(optim::GradientDescentOptions{
          .learning_rate = choice.learning_rate, .weight_decay = choice.weight_decay, .decays = optim::IsWeight});
    },
    [](const OptimizerChoice& choice) { return MakeMomentum(choice, false); },
    [](const OptimizerChoice& choice) { return MakeMomentum(choice, true); },
    &MakeAdam<optim::Adam, optim::AdamOptions>,
    &MakeAdam<optim::AdamW, optim::AdamWOptions>,
    &MakeLars,
    &MakeLamb,
    &MakeMuon};

}  // namespace

absl::Span<const absl::string_view> OptimizerNames() { return kNames; }

OptimizerPtr WithLookahead(OptimizerPtr optimizer, const OptimizerChoice& choice) {
  if (choice.lookahead == 0) return optimizer;
  return std::make_unique<optim::Lookahead>(
      optim::SharedOptimizer(std::move(optimizer)),
      optim::LookaheadOptions{.steps = choice.lookahead, .alpha = choice.lookahead_alpha});
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const OptimizerChoice& choice) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != choice.name) continue;
    return WithLookahead(kMake[i](choice), choice);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("The optimizer '", choice.name, "' is unknown; the optimizers are ", absl::StrJoin(kNames, ", ")));
}

}  // namespace belfry::trainers
