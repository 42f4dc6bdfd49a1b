// Learning-rate schedules by name, for programs whose users choose one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "optim/schedule.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

struct ScheduleChoice {
  double learning_rate = 0.1;   // the peak
  std::string name = "cosine";  // one of ScheduleNames()
  double end = 0;               // share of the peak at which "cosine" and "linear" end
  int64_t warmup_steps = 0;     // in which the rate rises from 0
};
// The run that a schedule is made for.
struct ScheduledRun {
  int64_t steps = 0, batch_size = 1, examples = 0;  // all steps; examples of a step, and of an epoch
};

ScheduledRun ScheduledOf(const ProgramRun& run);  // with opened data

// "cosine", "linear", "constant", "step_decay", "triangle", "staircase".
absl::Span<const absl::string_view> ScheduleNames();
// The schedule with another peak than the choice's. InvalidArgument for a batch that is too large for a staircase.
absl::StatusOr<optim::Schedule> MakeSchedule(const ScheduleChoice& choice, double peak, const ScheduledRun& run);
// The schedule "triangle": rises from a fifth of the peak to the peak at 23 % of the steps, then falls to 7 % at the
// last step. The rate is 0 from step `end` on.
optim::Schedule Triangle(double peak, int64_t steps, int64_t end);

}  // namespace belfry::trainers
