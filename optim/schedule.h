// Learning-rate schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/scope.h"

namespace belfry {
class Session;
}  // namespace belfry

namespace belfry::optim {

// Adds the nodes that compute a rate, a scalar of any float dtype, from `step`, an int64 scalar.
using NodesOfRate = std::function<Output(const Scope& scope, Output step)>;

// A learning rate as a function of the global step, both as a node of a graph and as a number on the host. A value
// type. A number converts to a constant schedule: Momentum({.learning_rate = 0.1}).
class Schedule {
 public:
  Schedule(double rate) : rate_(rate) {}  // NOLINT: converts on purpose

  // Adds the node that computes the rate, a float32 scalar, from `step`, an int64 scalar. Parameters out of range are
  // an error of the node.
  Output Build(const Scope& scope, Output step) const;
  // The rate at a step as a double; NaN if Build would fail.
  double At(int64_t step) const;
  // For example "WarmUpRate(warmup_steps=500, CosineRate(initial=0.1 ...))"; equal for equal schedules.
  std::string ToString() const;

 private:
  friend Schedule MakeSchedule(std::string op, Attrs attrs, std::shared_ptr<const Schedule> scaled);
  friend Schedule Adjustable(double initial);
  friend Schedule FromNodes(NodesOfRate nodes);
  double rate_;
  bool adjustable_ = false;
  std::string op_;  // an op of ops/schedule.h; empty for a constant; of FromNodes, what tells it from others
  Attrs attrs_;
  std::shared_ptr<const Schedule> scaled_;    // the schedule that a warm-up scales
  std::shared_ptr<const NodesOfRate> nodes_;  // null for all others
};

// The formulas are in ops/schedule.h; t is the step.

// values[i] applies after boundaries[i - 1], up to and including boundaries[i]. There is one more value than
// boundaries, which ascend.
Schedule Piecewise(std::vector<int64_t> boundaries, std::vector<double> values);
// The broken line through the points (steps[i], values[i]), of ascending steps; constant before the first one and after
// the last one.
Schedule Interpolated(std::vector<int64_t> steps, std::vector<double> values);
// initial * rate^(t / decay_steps); the exponent is rounded down if `staircase`.
Schedule Exponential(double initial, int64_t decay_steps, double rate, bool staircase = false);
// From `initial` to `end` over decay_steps, then `end`; power 1 is linear.
Schedule Polynomial(double initial, int64_t decay_steps, double end = 0, double power = 1);
// A rise or fall from `initial` to `end` over `steps`, slow at first for a power above 1; then `end`.
Schedule Ramp(double initial, int64_t steps, double end, double power = 1);
// Half a cosine from `initial` to `floor` over decay_steps, then `floor`.
Schedule Cosine(double initial, int64_t decay_steps, double floor = 0);
// `schedule`, whose first warmup_steps are scaled linearly from `start` (not itself used) to 1 (at the last of them).
// It counts from step 0 too, so it ends at the same step as without the warm-up.
Schedule WarmUp(Schedule schedule, int64_t warmup_steps, double start = 0);

// A rule of one's own:
//   optim::FromNodes([](const Scope& scope, Output step) { return ops::Div(scope, 0.1, ops::Sqrt(scope, ...)); })
// Copies of the result are one schedule; each call makes another.
Schedule FromNodes(NodesOfRate nodes);

// A rate that the program sets while it trains, as a callback does that halves it when nothing gets better: that of the
// last SetLearningRate, and `initial` before. It is the variable "learning_rate" of the graph,
// so that checkpoints keep it; a second one of a graph is the same, and its `initial` has no effect.
Schedule Adjustable(double initial);
// Sets the rate of the steps from now on. In a run of several tasks all must do so after the same step. InvalidArgument
// for a rate that is negative or not finite; FailedPrecondition if the graph has no adjustable rate.
absl::Status SetLearningRate(Session& session, double rate);

}  // namespace belfry::optim
