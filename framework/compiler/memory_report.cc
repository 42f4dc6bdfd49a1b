#include "framework/compiler/memory_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/units.h"

namespace belfry {
namespace {

// The node at which the arena of `device` is fullest.
int FullestMoment(const Plan& plan, int device) {
  const size_t size = plan.program.nodes.size();
  std::vector<int64_t> change(size + 2, 0);
  for (const MemoryBlock& block : plan.memory.blocks) {
    if (block.device != device) continue;
    const auto bytes = static_cast<int64_t>(block.bytes);
    change[std::max(block.start, 0)] += bytes;
    change[std::min<size_t>(static_cast<size_t>(block.end) + 1, size + 1)] -= bytes;
  }
  int64_t held = 0, peak = -1;
  int fullest = 0;
  for (size_t at = 0; at <= size; ++at) {
    held += change[at];
    if (held <= peak) continue;
    peak = held;
    fullest = static_cast<int>(at);
  }
  return fullest;
}

void ReportArena(const Plan& plan, int device, DeviceMemoryReport& report) {
  const int moment = FullestMoment(plan, device);
  size_t held = 0;
  for (const MemoryBlock& block : plan.memory.blocks) {
    if (block.device != device || std::max(block.start, 0) > moment || block.end < moment) continue;
    const ProgramNode& node = plan.program.nodes[block.node];
    size_t& kind = block.output < 0                           ? report.workspace
                   : node.op->kind == OpKind::kPlaceholder    ? report.inputs
                   : node.source->phase() == Phase::kBackward ? report.gradients
                                                              : report.activations;
    kind += block.bytes;
    held += block.bytes;
    const std::string what = block.output < 0 ? absl::StrCat("workspace of ", node.name)
                                              : absl::StrCat(node.name, " ", node.outputs[block.output].ToString());
    report.largest.push_back({what, block.bytes});
  }
  report.gaps = plan.memory.arena_bytes[device] - held;
}

}  // namespace

std::vector<size_t> CopyBytes(const Plan& plan, const DeviceSet& devices) {
  std::vector<size_t> bytes(devices.size());
  for (const ProgramNode& node : plan.program.nodes) {
    if (node.op->kind != OpKind::kConst || !devices.device(node.device).asynchronous()) continue;
    bytes[node.device] += node.outputs[0].bytes();
  }
  for (const Value& feed : plan.program.feeds) {
    const int device = plan.program.nodes[feed.node].device;
    const size_t size = plan.program.spec(feed).bytes();
    if (devices.device(device).asynchronous() && size >= kFedAheadBytes) bytes[device] += 2 * size;
  }
  return bytes;
}

std::vector<DeviceMemoryReport> ReportMemory(const Plan& plan, const Graph& graph, const DeviceSet& devices,
                                             const std::vector<int>& devices_by_node, int largest) {
  std::vector<DeviceMemoryReport> reports(devices.size());
  for (const Variable& variable : graph.variables()) {
    DeviceMemoryReport& report = reports[devices_by_node[variable.node().id()]];
    const TensorSpec spec{variable.dtype(), variable.shape()};
    (variable.def().slot_of != nullptr ? report.slots
     : variable.trainable()            ? report.parameters
                                       : report.others) += spec.bytes();
    report.largest.push_back({absl::StrCat("variable ", variable.name(), " ", spec.ToString()), spec.bytes()});
  }
  const std::vector<size_t> copies = CopyBytes(plan, devices);
  for (int device = 0; device < devices.size(); ++device) {
    DeviceMemoryReport& report = reports[device];
    report.copies = copies[device];
    ReportArena(plan, device, report);
    std::vector<MemoryItem>& items = report.largest;
    std::stable_sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
    if (static_cast<int>(items.size()) > largest) items.resize(largest);
  }
  return reports;
}

std::string MemoryTable(const std::vector<DeviceMemoryReport>& reports, const DeviceSet& devices) {
  const std::pair<const char*, size_t DeviceMemoryReport::*> columns[] = {
      {"parameters", &DeviceMemoryReport::parameters},
      {"slots", &DeviceMemoryReport::slots},
      {"others", &DeviceMemoryReport::others},
      {"copies", &DeviceMemoryReport::copies},
      {"inputs", &DeviceMemoryReport::inputs},
      {"activations", &DeviceMemoryReport::activations},
      {"gradients", &DeviceMemoryReport::gradients},
      {"workspace", &DeviceMemoryReport::workspace},
      {"gaps", &DeviceMemoryReport::gaps}};
  std::vector<std::vector<std::string>> rows = {{"MiB"}};
  for (const auto& [name, member] : columns) rows[0].push_back(name);
  rows[0].push_back("total");
  for (int device = 0; device < devices.size(); ++device) {
    const DeviceMemoryReport& report = reports[device];
    if (report.total() == 0) continue;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(devices.device(device).name().ToLocalString());
    for (const auto& [name, member] : columns) row.push_back(absl::StrFormat("%.2f", report.*member / kMebi));
    row.push_back(absl::StrFormat("%.2f", report.total() / kMebi));
  }
  std::vector<size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    absl::StrAppendFormat(&text, "%-*s", static_cast<int>(widths[0]), row[0]);
    for (size_t i = 1; i < row.size(); ++i) absl::StrAppendFormat(&text, " %*s", static_cast<int>(widths[i]), row[i]);
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text,
                  "others: variables that are not trained; copies: of constants and large feeds, on GPUs;\n"
                  "gaps: room between tensors\n");
  for (int device = 0; device < devices.size(); ++device) {
    if (reports[device].largest.empty()) continue;
    absl::StrAppendFormat(&text, "largest on %s, in MiB\n", devices.device(device).name().ToLocalString());
    for (const MemoryItem& item : reports[device].largest) {
      absl::StrAppendFormat(&text, "  %10.2f  %s\n", item.bytes / kMebi, item.what);
    }
  }
  return text;
}

size_t BytesOnCpus(const Plan& plan, const DeviceSet& devices) {
  size_t bytes = 0;
  for (int device = 0; device < devices.size(); ++device) {
    if (devices.device(device).type() == "CPU") bytes += plan.memory.arena_bytes[device];
  }
  return bytes;
}

absl::Status CheckMemory(const Plan& plan, const DeviceSet& devices, size_t untouched) {
  const std::vector<size_t> copies = CopyBytes(plan, devices);
  int cpus = 0;
  for (int device = 0; device < devices.size(); ++device) {
    const DeviceCounters counters = devices.device(device).counters();
    const size_t needed = plan.memory.arena_bytes[device] + copies[device];
    if (devices.device(device).type() == "CPU") {
      cpus += needed > 0 ? 1 : 0;
      continue;
    }
    const size_t left = counters.memory_limit - std::min(counters.memory_limit, counters.bytes_in_use);
    if (needed <= left) continue;
    return absl::ResourceExhaustedError(absl::StrFormat(
        "The step needs %.2f MiB on %s in addition to its variables, but only %.2f of its %.2f MiB are free; use a "
        "smaller batch",
        needed / kMebi, devices.device(device).name().ToString(), left / kMebi, counters.memory_limit / kMebi));
  }
  const size_t needed_on_cpus = BytesOnCpus(plan, devices);
  if (needed_on_cpus == 0) return absl::OkStatus();
  if (needed_on_cpus + kLibraryBytes <= FindAvailableMemory(untouched).bytes) return absl::OkStatus();
  std::string request = absl::StrFormat(
      "The step needs %.2f MiB on %d CPU device%s in addition to its variables, and %.0f MiB for libraries",
      needed_on_cpus / kMebi, cpus, cpus == 1 ? "" : "s", kLibraryBytes / kMebi);
  if (untouched > 0) {
    absl::StrAppendFormat(&request, "; beside %.2f MiB of other steps that are prepared", untouched / kMebi);
  }
  return OutOfMemory(request, untouched);
}

}  // namespace belfry
