#include "framework/compiler/plan_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/units.h"

namespace belfry {
namespace {

constexpr double kMega = 1e6;
constexpr int kLines = 20;

struct OpSum {
  int nodes = 0;
  double flops = 0;
};

std::string LocalName(const DeviceSet& devices, int device) { return devices.device(device).name().ToLocalString(); }

// The op types of a step, and the engines of those that have several, most work first.
std::string OpTable(const Plan& plan) {
  std::map<std::string, OpSum> sums;
  OpSum all;
  for (size_t i = 0; i < plan.program.nodes.size(); ++i) {
    const ProgramNode& node = plan.program.nodes[i];
    if (!Runs(node)) continue;
    const double flops = FlopsOf(plan.program, node);
    const absl::string_view engine = plan.engines[i];
    for (OpSum* sum : {&sums[absl::StrCat(node.op->name, engine.empty() ? "" : " by ", engine)], &all}) {
      ++sum->nodes;
      sum->flops += flops;
    }
  }
  std::vector<std::pair<std::string, OpSum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.flops > b.second.flops; });
  std::string text = absl::StrFormat("%-36s %8s %12s %7s\n", "Op", "nodes", "MFLOP", "share");
  for (const auto& [op, sum] : rows) {
    absl::StrAppendFormat(&text, "%-36s %8d %12.3f %6.1f%%\n", op, sum.nodes, sum.flops / kMega,
                          all.flops > 0 ? 100 * sum.flops / all.flops : 0.0);
  }
  absl::StrAppendFormat(&text, "%-36s %8d %12.3f\n", "all", all.nodes, all.flops / kMega);
  return text;
}

std::string TransferList(const Plan& plan, const DeviceSet& devices) {
  const std::vector<TransferInfo> transfers = plan.Transfers();
  size_t bytes = 0;
  for (const TransferInfo& transfer : transfers) bytes += transfer.bytes;
  std::string text = absl::StrFormat("Transfers in a step: %d, %.3f MiB\n", transfers.size(), bytes / kMebi);
  for (size_t i = 0; i < transfers.size() && i < kLines; ++i) {
    const TransferInfo& transfer = transfers[i];
    absl::StrAppendFormat(&text, "  %12d bytes  %s -> %s  %s\n", transfer.bytes, LocalName(devices, transfer.from),
                          LocalName(devices, transfer.to), transfer.tensor);
  }
  if (transfers.size() > kLines) absl::StrAppend(&text, "  and ", transfers.size() - kLines, " more\n");
  return text;
}

std::string CollectiveList(const Plan& plan) {
  struct Group {
    size_t bytes = 0;  // of a tower
    int64_t towers = 0;
    std::string kind;
  };
  std::map<std::string, Group> groups;
  for (const ProgramNode& node : plan.program.nodes) {
    if (node.op->kind != OpKind::kAllReduce) continue;
    const CollectiveGroup& group = plan.program.collectives[node.collective];
    groups[group.name] = {CollectiveBytes(node), group.size, node.attrs.String("reduction")};
  }
  size_t bytes = 0;
  for (const auto& [name, group] : groups) bytes += group.bytes;
  std::string text =
      absl::StrFormat("Collectives in a step: %d, %.3f MiB of each tower\n", groups.size(), bytes / kMebi);
  for (const auto& [name, group] : groups) {
    absl::StrAppendFormat(&text, "  %12d bytes  of each of %d towers  %s of %s\n", group.bytes, group.towers,
                          group.kind, name);
  }
  return text;
}

std::string CriticalPathText(const Plan& plan, const DeviceSet& devices) {
  const Program& program = plan.program;
  std::vector<std::pair<double, int>> path;
  double along = 0, all = 0;
  for (const ProgramNode& node : program.nodes) all += Runs(node) ? FlopsOf(program, node) : 0;
  for (int node : CriticalPath(program)) {
    if (!Runs(program.nodes[node])) continue;
    path.emplace_back(FlopsOf(program, program.nodes[node]), node);
    along += path.back().first;
  }
  std::string text = absl::StrFormat("Critical path: %s, %.3f of %.3f MFLOP",
                                     Counted(static_cast<int64_t>(path.size()), "op"), along / kMega, all / kMega);
  if (along > 0) absl::StrAppendFormat(&text, "; %.2f times as much could run side by side", all / along);
  absl::StrAppend(&text, "\n");
  std::stable_sort(path.begin(), path.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < path.size() && i < 5; ++i) {
    const ProgramNode& node = program.nodes[path[i].second];
    absl::StrAppendFormat(&text, "  %12.3f MFLOP  %s  %s\n", path[i].first / kMega, LocalName(devices, node.device),
                          node.name);
  }
  return text;
}

// The savings and the cost of a memory limit; empty if the plan recomputes nothing for it.
std::string RecomputationText(const Plan& plan, const DeviceSet& devices) {
  const Recomputation& again = plan.recomputation;
  if (again.nodes == 0) return "";
  std::string text =
      absl::StrFormat("Recomputation: %s run again, with %.0f MFLOP and %.0f MiB moved, for about %.1f%% more time\n",
                      Counted(again.nodes, "op"), again.flops / kMega, again.bytes / kMebi, 100 * again.share);
  for (size_t device = 0; device < again.arena_bytes.size(); ++device) {
    const size_t bytes = plan.memory.arena_bytes[device];
    if (bytes == again.arena_bytes[device]) continue;
    absl::StrAppendFormat(&text, "  %s: %.2f MiB beside variables, instead of %.2f\n",
                          LocalName(devices, static_cast<int>(device)), bytes / kMebi,
                          again.arena_bytes[device] / kMebi);
  }
  return text + "\n";
}

double FlopsOf(const ProgramNode& node, const std::vector<TensorSpec>& inputs) {
  if (node.op->flops) return node.op->flops({node.name, node.attrs, inputs, node.outputs});
  int64_t largest = 0;
  for (const TensorSpec& spec : inputs) largest = std::max(largest, spec.shape.elements());
  for (const TensorSpec& spec : node.outputs) largest = std::max(largest, spec.shape.elements());
  return static_cast<double>(largest);
}

}  // namespace

double FlopsOf(const Program& program, const ProgramNode& node) {
  if (node.op->kind != OpKind::kKernel || node.op == &CopyOp() || node.op == &TransferOp()) return 0;
  double sum = 0;
  for (const ProgramNode& member : node.body) sum += FlopsOf(member, InputSpecs(program, node, member));
  return node.body.empty() ? FlopsOf(node, InputSpecs(program, node)) : sum;
}

size_t CollectiveBytes(const ProgramNode& node) {
  const size_t per_rank = node.outputs.size() / node.ranks.size();
  size_t bytes = 0;
  for (size_t k = 0; k < per_rank; ++k) bytes += node.outputs[k].bytes();
  return bytes;
}

std::vector<int> CriticalPath(const Program& program) {
  const std::vector<ProgramNode>& nodes = program.nodes;
  std::vector<double> until(nodes.size(), 0);
  std::vector<int> before(nodes.size(), -1);
  int last = -1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto consider = [&](int node) {
      if (before[i] < 0 || until[node] > until[before[i]]) before[i] = node;
    };
    for (const Value& input : nodes[i].inputs) consider(input.node);
    for (int control : nodes[i].control_inputs) consider(control);
    until[i] = FlopsOf(program, nodes[i]) + (before[i] < 0 ? 0 : until[before[i]]);
    if (last < 0 || until[i] > until[last]) last = static_cast<int>(i);
  }
  std::vector<int> path;
  for (; last >= 0; last = before[last]) path.push_back(last);
  std::reverse(path.begin(), path.end());
  return path;
}

std::string ExplainPlan(const Plan& plan, const std::vector<DeviceMemoryReport>& memory, const DeviceSet& devices) {
  return absl::StrCat(MemoryTable(memory, devices), "\n", RecomputationText(plan, devices), OpTable(plan), "\n",
                      TransferList(plan, devices), CollectiveList(plan), "\n", CriticalPathText(plan, devices));
}

}  // namespace belfry
