// A step of one process as two queues, made from its plan and the times of its instructions, and its simulation.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/runtime/step_trace.h"

namespace belfry {

struct ModelInstruction {
  Instruction::Kind kind = Instruction::Kind::kRun;
  double seconds = 0;  // kRun
  double bytes = 0;    // kCollective: of one tower
  int event = -1;      // kWait, kRecord

  static ModelInstruction Run(double seconds) { return {.kind = Instruction::Kind::kRun, .seconds = seconds}; }
  static ModelInstruction Collective(double bytes) { return {.kind = Instruction::Kind::kCollective, .bytes = bytes}; }
  static ModelInstruction Wait(int event) { return {.kind = Instruction::Kind::kWait, .event = event}; }
  static ModelInstruction Record(int event) { return {.kind = Instruction::Kind::kRecord, .event = event}; }
};

// The streams of one device, each in order.
struct StepModel {
  std::vector<ModelInstruction> compute, collective;

  int collectives() const;
  double bytes() const;  // of all collectives, of one tower
};

// Seconds of a device's kernels, by the names of their nodes: medians over the steps. Plans that
// differ only in their collectives have nodes of the same names, so the times of one serve for all.
using KernelTimes = std::map<std::string, double>;
KernelTimes MedianKernelTimes(const Plan& plan, absl::Span<const StepTrace> steps, int device);

// The step of `device` in `plan`: its instructions in the order of the plan, with its waits and records. A wait for
// another device is left out, as if that were always earlier. InvalidArgument: a kernel has no time.
absl::StatusOr<StepModel> MakeStepModel(const Plan& plan, int device, const KernelTimes& times);

// The cost of a collective.
struct CollectiveCost {
  double seconds = 0;    // from the first byte sent to the last one received
  double beside = 0;     // the same if a kernel runs all the time; at least `seconds`
  double processor = 0;  // seconds of `beside` that kernels go without, spread evenly; at most `beside`
};

struct SimulatedStep {
  double seconds = 0;
  double compute = 0;  // kernels, as if nothing slowed them
  double slowed = 0;   // what collectives took from the kernels beside which they ran
  double exposed = 0;  // the rest: nothing was computed
};

// Runs both queues: an instruction begins once the one before it on its stream is done, a wait ends once its event is
// recorded. `cost` is asked for each collective, by its bytes. InvalidArgument: the streams wait for each other, or for
// an event that nothing records.
absl::StatusOr<SimulatedStep> SimulateStep(const StepModel& model,
                                           const std::function<CollectiveCost(double bytes)>& cost);

}  // namespace belfry
