#include "trainers/pictures/recipe.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/sampler.h"
#include "optim/descent.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"

namespace belfry::trainers {

void PictureRecipe::AddRates(Flags& flags) {
  flags.Add("momentum", &optimizer.momentum, Below1().Or(-1).Fixed(),
            "Momentum; 0: plain gradient descent; -1: 0 for cifar_net and 0.9 for a ResNet.");
  flags.Add("norm_learning_rate", &norm_learning_rate, Range(0).Recorded("0"),
            "Peak learning rate of the offsets of batch normalisation and, with --optimizer=muon, of every variable "
            "that is not a matrix, which then takes Nesterov's momentum. 0: --learning_rate.");
  flags.Add("head_learning_rate", &head_learning_rate, Range(0).Recorded("0"),
            "Peak learning rate of the last layer of a ResNet or speedrun_net. 0: --learning_rate.");
  flags.Add("weight_decay_per_step", &weight_decay_per_step, Below1().Recorded("0"),
            "Share of a variable that a step at its peak learning rate takes away, whatever that rate is, in addition "
            "to the weight decay that the networks of papers have. Variables that Muon updates have none.");
  flags.Add("lookahead_end", &lookahead_end, Below1().Recorded("0"),
            "Share of the way that the slow weights of --lookahead go at the last step, falling from all of it with "
            "the cube of the steps. 0: half of the way throughout.");
}

absl::Status PictureRecipe::CheckRates(const Flags& flags) const {
  const std::string &name = optimizer.name, of_optimizer = absl::StrCat("--optimizer=", name);
  if (name == "descent" || absl::StartsWith(name, "adam") || name == "lamb") {
    RETURN_IF_ERROR(flags.Reject({"momentum"}, of_optimizer));
  }
  if (name != "default" && name != "momentum" && name != "nesterov" && name != "muon") {
    RETURN_IF_ERROR(flags.Reject({"norm_learning_rate", "head_learning_rate", "weight_decay_per_step"}, of_optimizer));
  }
  return optimizer.lookahead > 0 ? absl::OkStatus() : flags.Reject({"lookahead_end"}, "a run without --lookahead");
}

absl::Status PictureRecipe::TakeSteps(int64_t otherwise, ProgramRun& run) {
  const int64_t epoch = data::BatchesPerEpoch(run.train->size(), run.order.batch_size, run.order.drop_remainder);
  whiten_steps = whiten_epochs * epoch;
  run.training.steps = otherwise;
  if (epochs == 0) return absl::OkStatus();
  const auto steps = static_cast<int64_t>(std::floor(epochs * static_cast<double>(epoch)));
  // The slow weights are the model, so the run ends when they have moved.
  const int64_t every = std::max<int64_t>(optimizer.lookahead, 1);
  run.training.steps = steps - steps % every;
  if (run.training.steps > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--epochs=", epochs, " of ", epoch, " batches is less than ",
                                                 Counted(every, "step"), every > 1 ? ", which --lookahead needs" : ""));
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> PictureRecipe::MakeOptimizer(const ScheduledRun& run) const {
  const double peak = schedule.learning_rate;
  OptimizerChoice choice = optimizer;
  if (choice.name == "default") choice.name = choice.momentum == 0 ? "descent" : "momentum";
  ASSIGN_OR_RETURN(choice.learning_rate, MakeSchedule(schedule, peak, run));
  const int64_t steps = std::max<int64_t>(run.steps, 1);
  if (lookahead_end > 0) choice.lookahead_alpha = optim::Ramp(1, steps, lookahead_end, 3);
  if (std::max({norm_learning_rate, head_learning_rate, weight_decay_per_step}) == 0) {
    return trainers::MakeOptimizer(choice);
  }

  const bool muon = choice.name == "muon";
  const double own_momentum = choice.momentum < 0 ? 0.9 : choice.momentum;
  const auto momentum = [&](double rate, const optim::Schedule& scheduled) {
    return optim::Momentum({.learning_rate = scheduled,
                            .momentum = muon ? 0.85 : own_momentum,
                            .use_nesterov = muon || choice.name == "nesterov",
                            .weight_decay = weight_decay_per_step / rate});
  };
  std::vector<optim::ParameterGroup> groups;
  const auto add = [&](const optim::VariableFilter& filter, double rate) {
    groups.push_back({filter, momentum(rate, *MakeSchedule(schedule, rate, run))});
  };
  const double norm = norm_learning_rate > 0 ? norm_learning_rate : peak;
  if (whiten_steps > 0 && (schedule.name == "triangle" || schedule.name == "linear")) {
    const double rate = muon ? norm : peak;
    groups.push_back({optim::NameMatches("whiten/biases"),
                      momentum(rate, schedule.name == "triangle" ? Triangle(rate, steps, whiten_steps)
                                                                 : optim::Polynomial(rate, whiten_steps))});
  }
  if (muon) {
    add([](const Variable& variable) { return !optim::IsWeight(variable); }, norm);
  } else if (norm_learning_rate > 0) {
    add(optim::NameMatches("*/beta"), norm);
  }
  if (muon || head_learning_rate > 0) {
    add(optim::NameMatches("logits/*"), head_learning_rate > 0 ? head_learning_rate : peak);
  }
  optim::SharedOptimizer rest = momentum(peak, choice.learning_rate);
  if (muon) {
    rest = optim::Muon(
        {.learning_rate = choice.learning_rate, .momentum = own_momentum, .iterations = 3, .normalise = true});
  }
  return WithLookahead(std::make_unique<optim::ParameterGroups>(std::move(groups), rest), choice);
}

}  // namespace belfry::trainers
