#include "trainers/program/schedule_choice.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kStaircaseEpochs = 350;

constexpr std::array<absl::string_view, 6> kSchedules = {"cosine",     "linear",   "constant",
                                                         "step_decay", "triangle", "staircase"};

absl::StatusOr<optim::Schedule> WithoutWarmUp(const ScheduleChoice& choice, double peak, const ScheduledRun& run) {
  const int64_t steps = std::max<int64_t>(run.steps, 1);
  if (choice.name == "cosine") return optim::Cosine(peak, steps, peak * choice.end);
  if (choice.name == "linear") return optim::Polynomial(peak, steps, peak * choice.end);
  if (choice.name == "triangle") return Triangle(peak, steps, steps);
  if (choice.name == "step_decay") {
    return optim::Piecewise({steps / 2 - 1, steps * 3 / 4 - 1}, {peak, peak * 0.1, peak * 0.01});
  }
  if (choice.name != "staircase") return optim::Schedule(peak);
  const int64_t decay_steps = run.examples * kStaircaseEpochs / run.batch_size;
  if (decay_steps > 0) return optim::Exponential(peak, decay_steps, 0.1, true);
  return absl::InvalidArgumentError(absl::StrFormat(
      "A batch of %d is too large for --schedule=staircase: %d epochs of %d examples do not fill a step",
      run.batch_size, kStaircaseEpochs, run.examples));
}

}  // namespace

ScheduledRun ScheduledOf(const ProgramRun& run) {
  return {.steps = run.training.steps, .batch_size = run.order.batch_size, .examples = run.train->size()};
}

absl::Span<const absl::string_view> ScheduleNames() { return kSchedules; }

absl::StatusOr<optim::Schedule> MakeSchedule(const ScheduleChoice& choice, double peak, const ScheduledRun& run) {
  ASSIGN_OR_RETURN(optim::Schedule schedule, WithoutWarmUp(choice, peak, run));
  return choice.warmup_steps > 0 ? optim::WarmUp(schedule, choice.warmup_steps) : schedule;
}

optim::Schedule Triangle(double peak, int64_t steps, int64_t end) {
  const int64_t top = std::max<int64_t>(1, steps * 23 / 100);
  const auto all = optim::Interpolated({0, top, std::max(steps, top + 1)}, {0.2 * peak, peak, 0.07 * peak});
  if (end >= steps) return all;
  std::vector<int64_t> at = {0};
  if (end - 1 > top) at.push_back(top);
  if (end > 1) at.push_back(end - 1);
  std::vector<double> values;
  for (const int64_t step : at) values.push_back(all.At(step));
  at.push_back(std::max<int64_t>(end, 1));
  values.push_back(0);
  return optim::Interpolated(std::move(at), std::move(values));
}

}  // namespace belfry::trainers
