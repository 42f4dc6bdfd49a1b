#include "framework/runtime/trace_report.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "framework/base/units.h"
#include "framework/compiler/plan_report.h"
#include "framework/graph/graph.h"

namespace belfry {
namespace {

constexpr size_t kRows = 25;

using Interval = std::pair<absl::Time, absl::Time>;

// Names that are not UTF-8 are replaced rather than refused.
std::string Text(const nlohmann::json& details) {
  return details.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsWait(const StepSpan& span) { return span.instruction.kind == Instruction::Kind::kWait; }
bool IsRecord(const StepSpan& span) { return span.instruction.kind == Instruction::Kind::kRecord; }
bool IsCommunication(const Plan& plan, const StepSpan& span) {
  if (span.instruction.kind == Instruction::Kind::kCollective) return true;
  return span.instruction.kind == Instruction::Kind::kRun &&
         plan.program.nodes[span.instruction.index].op == &TransferOp();
}

// The bytes that a span moves between devices.
size_t BytesMoved(const ProgramNode& node) {
  return node.op->kind == OpKind::kAllReduce ? CollectiveBytes(node)
         : node.op == &TransferOp()          ? node.outputs[0].bytes()
                                             : 0;
}

// Total overlap of two lists of intervals, each ascending and disjoint.
absl::Duration Overlap(const std::vector<Interval>& intervals, const std::vector<Interval>& others) {
  absl::Duration sum;
  size_t from = 0;
  for (const Interval& interval : intervals) {
    while (from < others.size() && others[from].second <= interval.first) ++from;
    for (size_t i = from; i < others.size() && others[i].first < interval.second; ++i) {
      sum += std::min(interval.second, others[i].second) - std::max(interval.first, others[i].first);
    }
  }
  return sum;
}

struct Sum {
  int64_t spans = 0;
  absl::Duration time;
  double flops = 0;
};

// Sums in a table, longest time first.
std::string SumTable(const char* title, const std::map<std::string, Sum>& sums, int64_t steps) {
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.time > b.second.time; });
  absl::Duration all;
  for (const auto& [name, sum] : rows) all += sum.time;
  std::string text = absl::StrFormat("%-36s %10s %10s %7s %10s\n", title, "a step", "ms a step", "share", "GFLOP/s");
  for (size_t i = 0; i < rows.size() && i < kRows; ++i) {
    const Sum& sum = rows[i].second;
    const double seconds = absl::ToDoubleSeconds(sum.time);
    absl::StrAppendFormat(&text, "%-36s %10.1f %10.3f %6.1f%%", rows[i].first, static_cast<double>(sum.spans) / steps,
                          1e3 * seconds / steps,
                          100 * absl::FDivDuration(sum.time, std::max(all, absl::Nanoseconds(1))));
    absl::StrAppend(&text,
                    seconds > 0 && sum.flops > 0 ? absl::StrFormat(" %10.1f\n", sum.flops / seconds / 1e9) : "\n");
  }
  if (rows.size() > kRows) absl::StrAppend(&text, "and ", rows.size() - kRows, " more\n");
  return text;
}

std::string StreamName(const StreamProgram& stream) {
  return stream.kind == StreamKind::kCollective ? "collectives" : "compute";
}

}  // namespace

std::string LayerOf(const Node& node) {
  const Node* owner = &node;
  while (owner->computed_for() != nullptr) owner = owner->computed_for();
  const std::string own_name = node.name().substr(node.name().rfind('/') + 1);
  if (node.phase() == Phase::kBackward && owner == &node) return own_name;  // of no one layer: a sum of gradients
  absl::string_view path = node.phase() == Phase::kUpdate ? node.graph().VariableOf(*owner).name() : owner->name();
  absl::ConsumePrefix(&path, owner->tower_scope());
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) return std::string(path.substr(0, slash));
  return node.phase() == Phase::kUpdate ? own_name : std::string(path);
}

TraceWriter::TraceWriter(const Plan& plan, const DeviceSet& devices, io::TraceFile& file)
    : plan_(plan), devices_(devices), file_(file) {
  for (const StreamProgram& stream : plan.streams) {
    rows_.push_back(
        file.AddRow(devices.device(stream.device).name().ToLocalString(), absl::StrCat(StreamName(stream), " stream")));
  }
}

void TraceWriter::AddStep(int64_t step, const StepTrace& trace) {
  for (const StepSpan& span : trace.spans) {
    if (IsRecord(span)) continue;
    nlohmann::json details = {{"step", step}};
    if (IsWait(span)) {
      // Most waits are already satisfied, and would clutter the trace.
      if (span.end - span.begin < absl::Microseconds(1)) continue;
      file_.AddSpan(rows_[span.stream], "wait", "wait", span.begin, span.end, Text(details));
      continue;
    }
    const ProgramNode& node = plan_.program.nodes[span.instruction.index];
    const double seconds = absl::ToDoubleSeconds(span.end - span.begin);
    details["op"] = node.op->name;
    for (const ProgramNode& member : node.body) {
      details["members"].push_back(absl::StrCat(member.name, " = ", member.op->name));
    }
    if (const double flops = FlopsOf(plan_.program, node); flops > 0 && seconds > 0) {
      details["MFLOP"] = flops / 1e6;
      details["GFLOP/s"] = flops / seconds / 1e9;
    }
    const bool communicates = IsCommunication(plan_, span);
    if (communicates) {
      const size_t bytes = BytesMoved(node);
      details["bytes"] = bytes;
      if (seconds > 0) details["GB/s"] = static_cast<double>(bytes) / seconds / 1e9;
    }
    if (node.op == &TransferOp()) {
      const ProgramNode& from = plan_.program.nodes[node.inputs[0].node];
      details["from"] = devices_.device(from.device).name().ToLocalString();
    }
    file_.AddSpan(rows_[span.stream], node.name, communicates ? "communication" : "kernel", span.begin, span.end,
                  Text(details));
  }
}

std::string TraceTable(const Plan& plan, const DeviceSet& devices, absl::Span<const StepTrace> steps) {
  if (steps.empty()) return "No step was traced.\n";
  const auto count = static_cast<int64_t>(steps.size());
  std::map<std::string, Sum> ops, layers;
  absl::Duration whole, communication, hidden;
  std::vector<absl::Duration> busy(plan.streams.size()), waiting(plan.streams.size());
  for (const StepTrace& step : steps) {
    whole += step.end - step.begin;
    std::map<int, std::vector<Interval>> computes, communicates;  // by device
    for (const StepSpan& span : step.spans) {
      if (IsRecord(span)) continue;
      const absl::Duration time = span.end - span.begin;
      if (IsWait(span)) {
        waiting[span.stream] += time;
        continue;
      }
      busy[span.stream] += time;
      const ProgramNode& node = plan.program.nodes[span.instruction.index];
      const bool moves = IsCommunication(plan, span);
      (moves ? communicates : computes)[plan.streams[span.stream].device].emplace_back(span.begin, span.end);
      const std::string layer = moves                     ? "(communication)"
                                : node.op == &UpdatesOp() ? "(updates)"
                                                          : LayerOf(*node.source);
      for (Sum* sum : {&ops[node.op->name], &layers[layer]}) {
        ++sum->spans;
        sum->time += time;
        sum->flops += FlopsOf(plan.program, node);
      }
    }
    for (auto& [device, intervals] : communicates) {
      std::sort(intervals.begin(), intervals.end());
      std::sort(computes[device].begin(), computes[device].end());
      for (const Interval& interval : intervals) communication += interval.second - interval.first;
      hidden += Overlap(intervals, computes[device]);
    }
  }
  std::string text =
      absl::StrFormat("%s of %.3f ms\n\n", Counted(count, "step"), 1e3 * absl::ToDoubleSeconds(whole) / count);
  absl::StrAppend(&text, SumTable("Op", ops, count), "\n", SumTable("Layer", layers, count), "\n");
  absl::StrAppendFormat(&text, "%-36s %10s %10s %7s\n", "Stream", "busy ms", "waits ms", "idle");
  for (size_t s = 0; s < plan.streams.size(); ++s) {
    const std::string name =
        absl::StrCat(devices.device(plan.streams[s].device).name().ToLocalString(), " ", StreamName(plan.streams[s]));
    absl::StrAppendFormat(&text, "%-36s %10.3f %10.3f %6.1f%%\n", name, 1e3 * absl::ToDoubleSeconds(busy[s]) / count,
                          1e3 * absl::ToDoubleSeconds(waiting[s]) / count,
                          100 * (1 - absl::FDivDuration(busy[s], whole)));
  }
  if (communication == absl::ZeroDuration()) return absl::StrCat(text, "\nNo communication.\n");
  absl::StrAppendFormat(&text, "\nCommunication: %.3f ms a step over all devices, %.1f%% of it hidden behind compute\n",
                        1e3 * absl::ToDoubleSeconds(communication) / count,
                        100 * absl::FDivDuration(hidden, communication));
  return text;
}

}  // namespace belfry
