#include "framework/compiler/recheck.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/alignment.h"
#include "framework/base/units.h"
#include "framework/compiler/fit_memory.h"

namespace belfry {
namespace {

// The time of moving a team of threads to other cores and back, about 30 us, in bytes that could be moved meanwhile.
constexpr double kMoveBytes = 3e5;
// Passes over a result: both are compared, and its checksum is made and checked.
constexpr double kPasses = 4;
constexpr double kMaxSteps = 1e9;  // of a cycle

bool SamePlace(const Storage& a, const Storage& b) {
  return a.kind == b.kind && a.node == b.node && a.offset == b.offset;
}

const Storage& StorageOf(const Plan& plan, Value value) { return plan.memory.outputs[value.node][value.index]; }

// A node with these attributes takes its numbers from a counter.
bool Draws(const ProgramNode& node) {
  return absl::c_all_of(std::initializer_list<const char*>{"seed", "key", "per_step"},
                        [&](const char* name) { return node.attrs.Find(name) != nullptr; });
}

bool ChangesMore(const ProgramNode& node) {
  if (node.op == &CopyOp() || node.op == &TransferOp()) return false;
  if (!node.body.empty()) return absl::c_any_of(node.body, ChangesMore);
  return node.op->stateful && !Draws(node) &&
         !absl::c_any_of(node.op->inputs, [](const ArgDef& arg) { return arg.ref; });
}

// True unless the op reads a variable that it updates in another place, too, which a copy of the one would not change.
bool ReadsItsOwn(const Plan& plan, const ProgramNode& node) {
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    if (!InputArg(node, k).ref) continue;
    const Storage& updated = StorageOf(plan, node.inputs[k]);
    if (updated.kind != Storage::Kind::kVariable) return false;
    for (const Value& input : node.inputs) {
      const Storage& read = StorageOf(plan, input);
      const bool same_variable = read.kind == updated.kind && read.node == updated.node;
      if (!same_variable) continue;
      const bool as_many = plan.program.spec(input).bytes() == plan.program.spec(node.inputs[k]).bytes();
      if (!SamePlace(read, updated) || !as_many) return false;
    }
  }
  return true;
}

}  // namespace

RecheckScratch PlanScratch(const Plan& plan, int node) {
  const ProgramNode& of = plan.program.nodes[node];
  RecheckScratch scratch{.inputs = std::vector<ptrdiff_t>(of.inputs.size(), -1),
                         .outputs = std::vector<ptrdiff_t>(of.outputs.size(), -1)};
  const auto take = [&](size_t bytes) {
    const auto at = static_cast<ptrdiff_t>(scratch.bytes);
    scratch.bytes += AlignUp(bytes);
    return at;
  };
  // All that lie where the updated variable does are the same copy.
  for (int k = 0; k < static_cast<int>(of.inputs.size()); ++k) {
    if (!InputArg(of, k).ref || scratch.inputs[k] >= 0) continue;
    const Storage& updated = StorageOf(plan, of.inputs[k]);
    const ptrdiff_t at = take(plan.program.spec(of.inputs[k]).bytes());
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (SamePlace(StorageOf(plan, of.inputs[i]), updated)) scratch.inputs[i] = at;
    }
    for (size_t i = 0; i < of.outputs.size(); ++i) {
      if (SamePlace(plan.memory.outputs[node][i], updated)) scratch.outputs[i] = at;
    }
  }
  for (size_t i = 0; i < of.outputs.size(); ++i) {
    const bool exists = plan.memory.outputs[node][i].kind != Storage::Kind::kNowhere && of.outputs[i].bytes() > 0;
    if (exists && scratch.outputs[i] < 0) scratch.outputs[i] = take(of.outputs[i].bytes());
  }
  return scratch;
}

RecheckPlan PlanRecheck(const Plan& plan, double share, int devices) {
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  RecheckPlan recheck{.steps = static_cast<int>(std::clamp(std::ceil(1 / share - 1e-9), 1.0, kMaxSteps)),
                      .turn = std::vector<int>(nodes.size(), -1),
                      .scratch_bytes = std::vector<size_t>(devices, 0)};
  std::vector<double> before(nodes.size(), 0), sum(devices, 0);
  double alone = 0, again = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ProgramNode& node = nodes[i];
    if (!Runs(node) || node.op->kind != OpKind::kKernel) continue;
    const double time = EstimatedTime(plan.program, node);
    alone += time;
    if (ChangesMore(node) || !ReadsItsOwn(plan, node)) {
      ++recheck.without;
      continue;
    }
    const size_t bytes = PlanScratch(plan, static_cast<int>(i)).bytes;
    recheck.scratch_bytes[node.device] = std::max(recheck.scratch_bytes[node.device], bytes);
    before[i] = sum[node.device];
    const double cost = time + kPasses * static_cast<double>(bytes) + kMoveBytes;
    sum[node.device] += cost;
    again += cost;
    ++recheck.ops;
    recheck.turn[i] = 0;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op->kind == OpKind::kAllReduce) {
      const auto collectives = static_cast<int64_t>(plan.program.collectives.size());
      recheck.turn[i] = static_cast<int>(int64_t{nodes[i].collective} * recheck.steps / collectives);
      continue;
    }
    if (recheck.turn[i] < 0) continue;
    recheck.turn[i] = std::min(recheck.steps - 1, static_cast<int>(before[i] / sum[nodes[i].device] * recheck.steps));
  }
  if (alone > 0) recheck.time = again / alone / recheck.steps;
  return recheck;
}

std::string RecheckText(const RecheckPlan& recheck) {
  size_t bytes = 0;
  for (const size_t each : recheck.scratch_bytes) bytes += each;
  std::string text =
      absl::StrFormat("Rechecks: %s once in %s, for about %.1f%% more time and %.2f MiB", Counted(recheck.ops, "op"),
                      Counted(recheck.steps, "step"), 100 * recheck.time, static_cast<double>(bytes) / kMebi);
  if (recheck.without > 0) absl::StrAppend(&text, "; not ", Counted(recheck.without, "op"), " with other effects");
  return text + "\n";
}

}  // namespace belfry
