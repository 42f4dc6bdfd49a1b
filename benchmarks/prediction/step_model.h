// A step of one process as two queues, made from its plan and the times of its kernels, and its simulation among many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/prediction/link.h"
#include "framework/compiler/plan.h"

namespace belfry::benchmarks {

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

// Seconds of a device's kernels, by the names of their nodes. Plans that differ only in their collectives have nodes of
// the same names, so the times of one serve for all.
using KernelTimes = std::map<std::string, double>;

// The step of `device` in `plan`: its instructions in the order of the plan, with its waits and records. A wait for
// another device is left out, as if that were always earlier. InvalidArgument: a kernel has no time.
absl::StatusOr<StepModel> MakeStepModel(const Plan& plan, int device, const KernelTimes& times);

struct SimulatedStep {
  double seconds = 0;
  double compute = 0;  // kernels, as if nothing slowed them
  double slowed = 0;   // what collectives took from the kernels beside which they ran
  double exposed = 0;  // the rest: nothing was computed
};

// Runs both queues: an instruction begins once the one before it on its stream is done, a wait ends once its event is
// recorded. `cost` is asked for each collective, by its bytes. InvalidArgument: the streams wait for each other, or for
// an event that nothing records.
absl::StatusOr<SimulatedStep> SimulateStep(const StepModel& model, const std::function<Cost(double bytes)>& cost);

struct Prediction {
  double step = 0;        // seconds
  double efficiency = 1;  // speed over that of one process, divided by the number of processes
  double exposed = 0;     // seconds in which a process computes nothing and averages
  // The largest part of the time beyond one process's step: "computing" if that is below 1 %, the "latency" of averages
  // that nothing hides or their "bandwidth", the "processor" that averaging takes from computing, or "stragglers".
  const char* bound = "computing";
};

// The expected largest of `count` independent normal values of mean 0 and standard deviation 1 (Blom, 1958), to 0.03.
double ExpectedLargest(int64_t count);

// The step of each of `processes`, with a tower each. `straggling` is the standard deviation of a process's step in
// seconds: all wait for the slowest. Errors: those of SimulateStep.
absl::StatusOr<Prediction> Predict(const StepModel& model, const Link& link, double straggling, int64_t processes);

// The index of the model with the shortest step; among those within 0.1 % of it, that of the fewest collectives.
// REQUIRES: there is one.
absl::StatusOr<size_t> ShortestStep(absl::Span<const StepModel> models, const Link& link, int64_t processes);

}  // namespace belfry::benchmarks
