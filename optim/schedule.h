// Learning rates over the steps of training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/graph/scope.h"

namespace belfry::optim {

// A rate as a function of the global step: a node of a graph, and a number on the host. A value; a number converts to a
// constant schedule:  Momentum({.learning_rate = 0.1}).
class Schedule {
 public:
  Schedule(double rate) : rate_(rate) {}  // NOLINT: converts on purpose

  // A float32 scalar, given the step as an int64 scalar. Parameters out of range are an error of the node.
  Output Build(const Scope& scope, Output step) const;
  // The rate at a step, in double; NaN where Build would fail.
  double At(int64_t step) const;
  // "WarmUpRate(warmup_steps=500, CosineRate(initial=0.1 ...))": equal for equal schedules.
  std::string ToString() const;

 private:
  friend Schedule MakeSchedule(std::string op, Attrs attrs, std::shared_ptr<const Schedule> scaled);
  double rate_;
  std::string op_;  // of ops/schedule.h; empty for a constant
  Attrs attrs_;
  std::shared_ptr<const Schedule> scaled_;  // what a warm-up scales
};

// The formulas stand in ops/schedule.h; t is the step.

// values[i] from after boundaries[i - 1] to boundaries[i] inclusive; one value more than boundaries, which ascend.
Schedule Piecewise(std::vector<int64_t> boundaries, std::vector<double> values);
// initial * rate^(t / decay_steps), the exponent rounded down if `staircase`.
Schedule Exponential(double initial, int64_t decay_steps, double rate, bool staircase = false);
// From `initial` to `end` in decay_steps, then `end`; power 1 is a line.
Schedule Polynomial(double initial, int64_t decay_steps, double end = 0, double power = 1);
// Half a cosine from `initial` to `floor` in decay_steps, then `floor`.
Schedule Cosine(double initial, int64_t decay_steps, double floor = 0);
// Another schedule, whose first warmup_steps are scaled by a line from `start` (not reached) to 1 (reached at the last
// of them). The other schedule counts from step 0 as well, so it ends where it would without warm-up.
Schedule WarmUp(Schedule schedule, int64_t warmup_steps, double start = 0);

}  // namespace belfry::optim
