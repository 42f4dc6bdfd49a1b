#include "benchmarks/step_times.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/plan_report.h"
#include "trainers/prediction/gpu_cost.h"

namespace belfry::benchmarks {
namespace {

using Interval = std::pair<absl::Time, absl::Time>;
using Kind = Instruction::Kind;

double Seconds(const Interval& interval) { return absl::ToDoubleSeconds(interval.second - interval.first); }

bool Moves(const Plan& plan, const StepSpan& span) {
  return span.instruction.kind == Kind::kCollective || plan.program.nodes[span.instruction.index].op == &TransferOp();
}

// Seconds of `interval` that overlap none of `others`, which are ascending and disjoint.
double Alone(const Interval& interval, const std::vector<Interval>& others) {
  double alone = Seconds(interval);
  for (const Interval& other : others) {
    const Interval both = {std::max(interval.first, other.first), std::min(interval.second, other.second)};
    if (both.first < both.second) alone -= Seconds(both);
  }
  return alone;
}

StepParts PartsOfOne(const Plan& plan, const StepTrace& step) {
  std::map<int, std::vector<Interval>> computes, moves;  // by device
  for (const StepSpan& span : step.spans) {
    if (span.instruction.kind != Kind::kRun && span.instruction.kind != Kind::kCollective) continue;
    (Moves(plan, span) ? moves : computes)[plan.streams[span.stream].device].emplace_back(span.begin, span.end);
  }
  StepParts parts{.step = Seconds({step.begin, step.end})};
  for (auto& [device, intervals] : computes) {
    std::sort(intervals.begin(), intervals.end());
    for (const Interval& interval : intervals) parts.compute += Seconds(interval);
    for (const Interval& interval : moves[device]) {
      parts.averaging += Seconds(interval);
      parts.exposed += Alone(interval, intervals);
    }
  }
  const auto devices = static_cast<double>(std::max<size_t>(computes.size(), 1));
  parts.compute /= devices;
  parts.averaging /= devices;
  parts.exposed /= devices;
  return parts;
}

}  // namespace

std::vector<NodeTime> NodeTimes(const Plan& plan, absl::Span<const StepTrace> steps) {
  std::vector<NodeTime> times;
  std::map<int, std::vector<double>> seconds;
  for (const StepTrace& step : steps) {
    for (const StepSpan& span : step.spans) {
      if (span.instruction.kind != Kind::kRun || Moves(plan, span)) continue;
      std::vector<double>& of_node = seconds[span.instruction.index];
      if (of_node.empty()) times.push_back({.node = span.instruction.index});
      of_node.push_back(Seconds({span.begin, span.end}));
    }
  }
  for (NodeTime& time : times) {
    time.seconds = Median(seconds[time.node]);
    time.flops = FlopsOf(plan.program, plan.program.nodes[time.node]);
    time.bytes = LeastBytes(plan.program, plan.program.nodes[time.node]);
  }
  return times;
}

StepParts PartsOf(const Plan& plan, absl::Span<const StepTrace> steps) {
  std::vector<StepParts> all;
  for (const StepTrace& step : steps) all.push_back(PartsOfOne(plan, step));
  StepParts medians;
  for (double StepParts::*part : {&StepParts::step, &StepParts::compute, &StepParts::averaging, &StepParts::exposed}) {
    std::vector<double> seconds;
    for (const StepParts& parts : all) seconds.push_back(parts.*part);
    if (!all.empty()) medians.*part = Median(seconds);
  }
  return medians;
}

std::string Split(const Plan& plan, absl::Span<const NodeTime> times, int count) {
  std::map<std::string, double> by_op;
  double all = 0;
  for (const NodeTime& time : times) {
    by_op[plan.program.nodes[time.node].op->name] += time.seconds;
    all += time.seconds;
  }
  std::vector<std::pair<double, std::string>> ops;
  for (const auto& [name, seconds] : by_op) ops.emplace_back(-seconds, name);
  std::sort(ops.begin(), ops.end());
  std::string text;
  for (size_t i = 0; i < ops.size() && i < static_cast<size_t>(count); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", ops[i].second,
                    absl::StrFormat(" %.0f%%", -100 * ops[i].first / std::max(all, 1e-12)));
  }
  return text;
}

double LeastBytes(const Program& program, const ProgramNode& node) {
  double bytes = 0;
  HashSet<Value> counted;
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    const ArgDef& arg = InputArg(node, i);
    if (arg.shape_only || !counted.insert(node.inputs[i]).second) continue;
    const auto size = static_cast<double>(program.spec(node.inputs[i]).bytes());
    const double read = arg.overwrites ? 0 : std::min(1.0, ReadsOf(*node.op, i));
    bytes += size * (read + (arg.ref ? 1 : 0));
  }
  const double each = node.op->name == "Gather" ? 2 : 1;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
    const bool is_variable = node.body.empty() && node.op->output_arg(i).ref;
    if (!is_variable) bytes += each * static_cast<double>(node.outputs[i].bytes());
  }
  return bytes;
}

size_t LeastArena(const MemoryPlan& memory, int device) {
  std::map<int, int64_t> change;  // by node: bytes that come into use with it, less those that went out of use with its
                                  // predecessor
  for (const MemoryBlock& block : memory.blocks) {
    if (block.device != device) continue;
    change[block.start] += static_cast<int64_t>(block.bytes);
    change[block.end + 1] -= static_cast<int64_t>(block.bytes);
  }
  int64_t held = 0, most = 0;
  for (const auto& [node, bytes] : change) most = std::max(most, held += bytes);
  return static_cast<size_t>(most);
}

double FlopsOfStep(const Plan& plan) {
  double flops = 0;
  for (const ProgramNode& node : plan.program.nodes) flops += FlopsOf(plan.program, node);
  return flops;
}

}  // namespace belfry::benchmarks
