// The way a network for pictures is trained: steps, learning rates and optimizer.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optim/optimizer.h"
#include "trainers/flags/flags.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/schedule_choice.h"

namespace belfry::trainers {

struct PictureRecipe {
  ScheduleChoice schedule = {};
  OptimizerChoice optimizer = {};  // "default": momentum, or descent if that is 0
  // Peak rates of the offsets of batch normalisation (beta) or, with Muon, of all variables that are not matrices, and
  // of the last layer, logits/*. 0: the schedule's.
  double norm_learning_rate = 0, head_learning_rate = 0;
  // The share of a variable that a step at its peak rate takes away, whatever the rate: it is added to the gradient,
  // divided by that. Muon's variables are exempt.
  double weight_decay_per_step = 0;
  double lookahead_end = 0;  // the slow weights' share at the last step, falling from 1; 0: half throughout
  double epochs = 0;         // instead of --steps; 0: those
  // With grouped rates and a "linear" or "triangle" schedule, whiten/biases train in the first epochs only; 0: in all.
  int64_t whiten_epochs = 0, whiten_steps = 0;  // TakeSteps sets the latter

  // The rows of --momentum, of the grouped rates and of lookahead_end; and which optimizers have these.
  void AddRates(Flags& flags);
  absl::Status CheckRates(const Flags& flags) const;

  // Sets the steps of a run with opened data: those of `epochs`, or `otherwise`. InvalidArgument if epochs have none.
  absl::Status TakeSteps(int64_t otherwise, ProgramRun& run);
  // If a rate or the decay above is set, rates are grouped: "momentum" and "nesterov" have them, and "muon", which is
  // then Muon with three iterations and filters of constant norm for all matrices except the last layer's, and
  // Nesterov's momentum 0.85 for the rest (Jordan, airbench94_muon, 2024). Errors: those of MakeSchedule.
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ScheduledRun& run) const;
};

}  // namespace belfry::trainers
