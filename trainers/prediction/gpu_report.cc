#include "trainers/prediction/gpu_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/plan_report.h"
#include "framework/runtime/trace_report.h"

namespace belfry {
namespace {

constexpr size_t kRows = 20;
constexpr double kHostCopy = 1e10;  // bytes a second that a thread copies

using Sums = std::map<std::string, StepDemand>;

void Add(const Demand& demand, double seconds, StepDemand& sum) {
  sum.launches += demand.launches;
  sum.bytes += demand.bytes;
  sum.flops += demand.flops;
  sum.seconds += seconds;
}

std::string Row(absl::string_view name, const StepDemand& sum, double all) {
  return absl::StrFormat("%-36s %8.0f %10.2f %10.3f %10.1f %6.1f%%\n", name, sum.launches, sum.bytes / 1e6,
                         sum.flops / 1e9, sum.seconds * 1e6, all > 0 ? 100 * sum.seconds / all : 0.0);
}

// Most time first.
std::string Table(absl::string_view title, const Sums& sums, double all) {
  std::vector<std::pair<std::string, StepDemand>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  std::string text = absl::StrFormat("%-36s %8s %10s %10s %10s %7s\n", title, "launches", "MB", "GFLOP", "us", "share");
  StepDemand rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i < kRows) {
      absl::StrAppend(&text, Row(rows[i].first, rows[i].second, all));
      continue;
    }
    rest.launches += rows[i].second.launches;
    rest.bytes += rows[i].second.bytes;
    rest.flops += rows[i].second.flops;
    rest.seconds += rows[i].second.seconds;
  }
  if (rows.size() > kRows) absl::StrAppend(&text, Row(absl::StrCat(rows.size() - kRows, " others"), rest, all));
  return text;
}

std::string Comparison(const PredictedStep& step, const Plan& plan, const Plan& unfused, int device,
                       const GpuCard& card) {
  const std::pair<const char*, std::vector<Demand>> peers[] = {
      {"without fusion", FuseStep(unfused, device, kNoFusion)},
      {"by the rules of torch.compile", FuseStep(unfused, device, kTorchCompile)},
      {"with perfect fusion", FusePerfectly(plan, unfused, device)}};
  std::string text = absl::StrFormat("%-36s %8s %10s %10s %10s %7s\n", "Kernels", "launches", "MB", "GFLOP", "us", "");
  absl::StrAppend(&text, Row("of this plan", step.sum, step.sum.seconds));
  for (const auto& [name, demands] : peers) {
    absl::StrAppend(&text, Row(name, SumOf(demands, card), step.sum.seconds));
  }
  return text;
}

// Seconds until all streams of the device end: an instruction begins once the one before it on its stream is done, and
// once the event that it waits for is recorded, unless another device records it, as if that were always earlier.
double SecondsOfStreams(const Plan& plan, int device, const std::vector<double>& seconds) {
  struct Queue {
    const std::vector<Instruction>& instructions;
    size_t next = 0;
    double time = 0;
  };
  std::vector<Queue> queues;
  HashMap<int, double> recorded;  // infinity: not yet
  for (const StreamProgram& stream : plan.streams) {
    if (stream.device != device) continue;
    queues.push_back({stream.instructions});
    for (const Instruction& at : stream.instructions) {
      if (at.kind == Instruction::Kind::kRecord) recorded[at.index] = std::numeric_limits<double>::infinity();
    }
  }
  const auto advance = [&](Queue& queue) {
    const size_t before = queue.next;
    for (; queue.next < queue.instructions.size(); ++queue.next) {
      const Instruction& at = queue.instructions[queue.next];
      const auto event = recorded.find(at.index);
      if (at.kind == Instruction::Kind::kRecord) {
        event->second = queue.time;
      } else if (at.kind != Instruction::Kind::kWait) {
        queue.time += seconds[at.index];
      } else if (event != recorded.end()) {
        if (std::isinf(event->second)) break;
        queue.time = std::max(queue.time, event->second);
      }
    }
    return queue.next > before;
  };
  for (bool advanced = true; advanced;) {
    advanced = false;
    for (Queue& queue : queues) advanced = advance(queue) || advanced;
  }
  double end = 0;
  for (const Queue& queue : queues) end = std::max(end, queue.time);
  return end;
}

}  // namespace

PredictedStep PredictStep(const Plan& plan, int device, int cards, const GpuCard& card) {
  PredictedStep step;
  const double ring = cards > 1 ? 2 * (cards - 1.0) / cards / (card.link * card.link_share) : 0;
  for (const ProgramNode& node : plan.program.nodes) {
    Demand& demand = step.demands.emplace_back();
    double& seconds = step.seconds.emplace_back(0);
    if (node.device != device || !Runs(node)) continue;
    if (node.op->kind == OpKind::kAllReduce) {
      const std::string& reduction = node.attrs.String("reduction");
      const bool half = reduction == "reduce_scatter" || reduction == "all_gather";  // of an average
      seconds = card.average + static_cast<double>(CollectiveBytes(node)) * (half ? 0.5 : 1.0) * ring;
      continue;
    }
    demand = DemandOf(plan.program, node);
    seconds = SecondsOf(demand, card);
    Add(demand, seconds, step.sum);
  }
  double fed = 0;
  for (const Value& feed : plan.program.feeds) fed += static_cast<double>(plan.program.spec(feed).bytes());
  const double streams = SecondsOfStreams(plan, device, step.seconds);
  step.exposed = streams - step.sum.seconds;
  step.host = card.graph_launch + fed / kHostCopy;
  step.step = std::max({streams, step.host, fed / (cards * card.host_link)});
  return step;
}

std::string PredictionText(const Plan& plan, const Plan& unfused, int device, int cards, const GpuCard& card) {
  const PredictedStep step = PredictStep(plan, device, cards, card);
  Sums works, layers, ops;
  for (size_t i = 0; i < step.demands.size(); ++i) {
    const ProgramNode& node = plan.program.nodes[i];
    if (step.demands[i].launches == 0) continue;
    Add(step.demands[i], step.seconds[i], works[std::string(WorkName(step.demands[i].work))]);
    Add(step.demands[i], step.seconds[i], layers[LayerOf(*node.source)]);
    Add(step.demands[i], step.seconds[i], ops[node.op->name]);
  }
  const double all = step.sum.seconds;
  return absl::StrCat(
      absl::StrFormat(
          "Predicted for %d of %s: a step takes about %.3f ms\n"
          "(%.3f ms of kernels, %.3f ms of averaging that nothing hides; the host is busy for %.3f ms).\n"
          "Launches and bytes are counted. Times are true to about 15 %% for ResNets and transformers in 16\n"
          "bits on a card that --as knows by name, to about 40 %% otherwise.\n\n",
          cards, card.model, step.step * 1e3, all * 1e3, step.exposed * 1e3, step.host * 1e3),
      Comparison(step, plan, unfused, device, card), "\n", Table("Work", works, all), "\n", Table("Layer", layers, all),
      "\n", Table("Op", ops, all));
}

}  // namespace belfry
