#include "benchmarks/prediction/step_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/plan_report.h"

namespace belfry::benchmarks {
namespace {

using Kind = Instruction::Kind;

constexpr double kNegligible = 0.01;   // of a step, for Prediction::bound
constexpr double kAsShort = 1 + 1e-3;  // ratio of steps that count as equal

// A stream that is being simulated.
struct Queue {
  const std::vector<ModelInstruction>& instructions;
  size_t next = 0;
  double left = 0;  // seconds of the instruction under way, if the other stream rests
  double pace = 1;  // seconds of it that pass in one if the other stream is busy, too
  bool busy = false;

  bool done() const { return !busy && next == instructions.size(); }
};

class Simulator {
 public:
  Simulator(const StepModel& model, const std::function<Cost(double bytes)>& cost)
      : cost_(cost), compute_{model.compute}, collective_{model.collective} {}

  absl::StatusOr<SimulatedStep> Run() {
    for (;;) {
      while (Start(compute_) || Start(collective_)) {
      }
      if (compute_.done() && collective_.done()) break;
      if (!compute_.busy && !collective_.busy) {
        return absl::InvalidArgumentError("The streams of a step wait for events that nothing records");
      }
      Advance();
    }
    return result_;
  }

 private:
  // Begins the next instruction of an idle queue, or passes it if it takes no time. False: there is none, or it waits.
  bool Start(Queue& queue) {
    if (queue.busy || queue.next == queue.instructions.size()) return false;
    const ModelInstruction& at = queue.instructions[queue.next];
    switch (at.kind) {
      case Kind::kWait:
        if (!recorded_.contains(at.event)) return false;
        break;
      case Kind::kRecord: recorded_.insert(at.event); break;
      case Kind::kRun:
        queue.left = at.seconds;
        queue.busy = true;
        break;
      case Kind::kCollective: {
        const Cost cost = cost_(at.bytes);
        const double beside = std::max(cost.beside, cost.seconds);
        queue.left = cost.seconds;
        queue.pace = beside > 0 ? cost.seconds / beside : 1;
        compute_.pace = beside > 0 ? 1 - std::min(cost.processor / beside, 1.0) : 1;
        queue.busy = true;
        break;
      }
    }
    ++queue.next;
    return true;
  }

  // Goes on to the time at which the first of both queues ends its instruction.
  void Advance() {
    const bool both = compute_.busy && collective_.busy;
    const auto until_end = [&](const Queue& queue) {
      if (!queue.busy) return std::numeric_limits<double>::infinity();
      return queue.left > 0 && both ? queue.left / queue.pace : queue.left;  // infinite for a pace of 0
    };
    const double compute_end = until_end(compute_), collective_end = until_end(collective_);
    const double step = std::min(compute_end, collective_end);
    const double computed = both ? step * compute_.pace : step;
    result_.seconds += step;
    if (compute_.busy) {
      result_.compute += computed;
      result_.slowed += step - computed;
      compute_.left -= computed;
    } else {
      result_.exposed += step;
    }
    collective_.left -= both ? step * collective_.pace : step;
    if (compute_end <= collective_end) compute_.busy = false;
    if (collective_end <= compute_end) collective_.busy = false;
  }

  const std::function<Cost(double bytes)>& cost_;
  Queue compute_, collective_;
  HashSet<int> recorded_;
  SimulatedStep result_;
};

}  // namespace

int StepModel::collectives() const {
  return static_cast<int>(std::count_if(collective.begin(), collective.end(), [](const ModelInstruction& instruction) {
    return instruction.kind == Kind::kCollective;
  }));
}

double StepModel::bytes() const {
  double sum = 0;
  for (const ModelInstruction& instruction : collective) sum += instruction.bytes;
  return sum;
}

absl::StatusOr<StepModel> MakeStepModel(const Plan& plan, int device, const KernelTimes& times) {
  HashSet<int> recorded;
  for (const StreamProgram& stream : plan.streams) {
    if (stream.device != device) continue;
    for (const Instruction& instruction : stream.instructions) {
      if (instruction.kind == Kind::kRecord) recorded.insert(instruction.index);
    }
  }
  StepModel model;
  for (const StreamProgram& stream : plan.streams) {
    if (stream.device != device) continue;
    std::vector<ModelInstruction>& queue = stream.kind == StreamKind::kCollective ? model.collective : model.compute;
    for (const Instruction& instruction : stream.instructions) {
      switch (instruction.kind) {
        case Kind::kWait:
          if (recorded.contains(instruction.index)) queue.push_back(ModelInstruction::Wait(instruction.index));
          break;
        case Kind::kRecord: queue.push_back(ModelInstruction::Record(instruction.index)); break;
        case Kind::kCollective:
          queue.push_back(ModelInstruction::Collective(
              static_cast<double>(CollectiveBytes(plan.program.nodes[instruction.index]))));
          break;
        case Kind::kRun: {
          const std::string& name = plan.program.nodes[instruction.index].name;
          const auto found = times.find(name);
          if (found == times.end()) {
            return absl::InvalidArgumentError(absl::StrCat("No time was measured for ", name));
          }
          queue.push_back(ModelInstruction::Run(found->second));
          break;
        }
      }
    }
  }
  return model;
}

absl::StatusOr<SimulatedStep> SimulateStep(const StepModel& model, const std::function<Cost(double bytes)>& cost) {
  return Simulator(model, cost).Run();
}

double ExpectedLargest(int64_t count) {
  if (count <= 1) return 0;
  const auto n = static_cast<double>(count);
  const double above = 1 - (n - 0.375) / (n + 0.25);  // the part of all values that is larger
  double low = 0, high = 10;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > above ? low : high) = middle;
  }
  return low;
}

absl::StatusOr<Prediction> Predict(const StepModel& model, const Link& link, double straggling, int64_t processes) {
  const auto average = [&](double bytes) { return link.Average(bytes, processes); };
  ASSIGN_OR_RETURN(const SimulatedStep alone, SimulateStep(model, [](double) { return Cost(); }));
  ASSIGN_OR_RETURN(const SimulatedStep step, SimulateStep(model, average));
  ASSIGN_OR_RETURN(const SimulatedStep empty, SimulateStep(model, [&](double) { return average(0); }));
  const double waiting = straggling * ExpectedLargest(processes);
  Prediction prediction{.step = step.seconds + waiting, .exposed = step.exposed};
  prediction.efficiency = alone.seconds / prediction.step;
  const double latency = std::min(empty.exposed, step.exposed);
  double largest = 0;
  for (const auto& [bound, seconds] : {std::pair{"latency", latency},
                                       {"bandwidth", step.exposed - latency},
                                       {"processor", step.slowed},
                                       {"stragglers", waiting}}) {
    if (seconds > largest) std::tie(prediction.bound, largest) = std::pair(bound, seconds);
  }
  if (prediction.step - alone.seconds < kNegligible * prediction.step) prediction.bound = "computing";
  return prediction;
}

absl::StatusOr<size_t> ShortestStep(absl::Span<const StepModel> models, const Link& link, int64_t processes) {
  std::vector<double> steps;
  for (const StepModel& model : models) {
    ASSIGN_OR_RETURN(const Prediction prediction, Predict(model, link, 0, processes));
    steps.push_back(prediction.step);
  }
  const double shortest = *std::min_element(steps.begin(), steps.end());
  size_t best = models.size();
  for (size_t i = 0; i < models.size(); ++i) {
    if (steps[i] > shortest * kAsShort) continue;
    if (best == models.size() || models[i].collectives() < models[best].collectives()) best = i;
  }
  return best;
}

}  // namespace belfry::benchmarks
