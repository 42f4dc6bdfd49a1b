// How the checks of a plan become addresses.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/runtime/one_thread.h"
#include "framework/runtime/recheck/recheck.h"

namespace belfry {

class RecheckBinder {
 public:
  RecheckBinder(BoundPlan& bound, VariableStore& variables, Recheck& recheck)
      : bound_(bound),
        plan_(*bound.plan),
        nodes_(plan_.program.nodes),
        variables_(variables),
        recheck_(recheck),
        at_(nodes_.size(), nullptr) {}

  absl::Status Bind(absl::Duration short_step) {
    for (const size_t bytes : recheck_.turns_.scratch_bytes) {
      Device& device = bound_.devices.device(static_cast<int>(recheck_.scratch_.size()));
      absl::StatusOr<DeviceMemory> scratch = DeviceMemory::Allocate(device, bytes);
      if (!scratch.ok()) {
        return absl::Status(scratch.status().code(),
                            absl::StrCat("Rechecks need ", bytes, " bytes on ", device.name().ToString(), ": ",
                                         scratch.status().message()));
      }
      recheck_.scratch_.push_back(*std::move(scratch));
    }
    BindLanes(short_step);
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (at_[i] != nullptr && at_[i]->turn >= 0 && nodes_[i].op->kind == OpKind::kKernel) BindTurn(i);
    }
    BindResults();
    if (!plan_.written.empty()) BindVariables();
    return absl::OkStatus();
  }

 private:
  void BindLanes(absl::Duration short_step) {
    const std::vector<int> all = AvailableCores();
    const bool is_short = absl::Seconds(EstimateSeconds(plan_.program)) < short_step;
    for (auto& lane : bound_.lanes) {
      const Device& device = bound_.devices.device(lane->device);
      recheck_.lanes_.push_back(std::make_unique<LaneRecheck>(
          plan_, *lane, recheck_.turns_.steps, TeamCores(CoresFor(device, all), is_short ? 1 : device.threads()),
          recheck_.found_));
      lane->recheck = recheck_.lanes_.back().get();
      for (size_t position = 0; position < lane->instructions.size(); ++position) {
        const BoundInstruction& instruction = lane->instructions[position];
        if (instruction.uses_event()) continue;
        at_[instruction.index] = &lane->recheck->at(position);
        at_[instruction.index]->turn = recheck_.turns_.turn[instruction.index];
      }
    }
  }

  // The cores that the threads of a device move among: those that they are bound to, if these are at least two, else
  // all.
  static absl::Span<const int> CoresFor(const Device& device, const std::vector<int>& all) {
    const absl::Span<const int> own = device.cores();
    return static_cast<int>(own.size()) > ThreadsOfCore(own) ? own : absl::MakeConstSpan(all);
  }

  void BindTurn(int node) {
    const ProgramNode& of = nodes_[node];
    RecheckedInstruction& at = *at_[node];
    const RecheckScratch scratch = PlanScratch(plan_, node);
    auto* const begin = static_cast<std::byte*>(recheck_.scratch_[of.device].data());
    at.inputs = bound_.inputs[node];
    at.outputs = bound_.outputs[node];
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (scratch.inputs[i] < 0) continue;
      std::byte* const copy = begin + scratch.inputs[i];
      const TensorSpec& spec = plan_.program.spec(of.inputs[i]);
      if (InputArg(of, static_cast<int>(i)).ref && spec.bytes() > 0) {
        at.copies.push_back({copy, at.inputs[i], spec.bytes()});
        at.results.push_back({copy, at.inputs[i], spec, -1 - static_cast<int>(i)});
      }
      at.inputs[i] = copy;
    }
    for (size_t i = 0; i < of.outputs.size(); ++i) {
      if (scratch.outputs[i] < 0) continue;
      std::byte* const result = begin + scratch.outputs[i];
      if (!of.op->output_arg(static_cast<int>(i)).ref) {
        at.results.push_back({result, at.outputs[i], of.outputs[i], static_cast<int>(i)});
      }
      at.outputs[i] = result;
    }
  }

  ResultGuard* AddGuard(Value value) {
    auto guard = std::make_unique<ResultGuard>(ResultGuard{.node = value.node,
                                                           .output = value.index,
                                                           .data = bound_.outputs[value.node][value.index],
                                                           .bytes = plan_.program.spec(value).bytes()});
    at_[value.node]->made.push_back(guard.get());
    recheck_.guards_.push_back(std::move(guard));
    return recheck_.guards_.back().get();
  }

  // Guards of the results of nodes with a turn, by their last reader, and of what a collective gives to all ranks.
  void BindResults() {
    HashMap<Value, int> last;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      for (size_t k = 0; at_[i] != nullptr && k < nodes_[i].inputs.size(); ++k) {
        if (!InputArg(nodes_[i], static_cast<int>(k)).shape_only) last[Root(plan_.program, nodes_[i].inputs[k])] = i;
      }
    }
    std::map<std::pair<int, int>, CommonResult> common;  // by collective and value
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const ProgramNode& node = nodes_[i];
      if (at_[i] == nullptr || at_[i]->turn < 0) continue;
      const bool collective = node.op->kind == OpKind::kAllReduce;
      const bool shared = collective && node.attrs.String("reduction") != "reduce_scatter";
      for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
        const auto reader = last.find({i, k});
        const bool has_bytes = bound_.outputs[i][k] != nullptr && node.outputs[k].bytes() > 0;
        if (!has_bytes || node.op->output_arg(k).ref || (reader == last.end() && !shared)) continue;
        ResultGuard* const guard = AddGuard({i, k});
        if (reader != last.end()) at_[reader->second]->looked.push_back(guard);
        const int values = shared ? static_cast<int>(node.outputs.size() / node.ranks.size()) : 1;
        if (shared) common[{node.collective, k % values}].ranks.push_back(guard);
      }
    }
    for (auto& [key, result] : common) recheck_.common_.push_back(std::move(result));
  }

  void BindVariables() {
    std::vector<char> written(nodes_.size(), 0), read(nodes_.size(), 0);
    for (const int variable : plan_.written) written[variable] = 1;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t k = 0; at_[i] != nullptr && k < nodes_[i].inputs.size(); ++k) {
        const ArgDef& arg = InputArg(nodes_[i], static_cast<int>(k));
        const int variable = Root(plan_.program, nodes_[i].inputs[k]).node;
        if (arg.shape_only || nodes_[variable].op->kind != OpKind::kVariable) continue;
        const Node* const source = nodes_[variable].source;
        const GuardedVariable guarded{source, &variables_.at(source)};
        const auto known = [&](const GuardedVariable& other) { return other.variable == source; };
        std::vector<GuardedVariable>& updated = at_[i]->updated;
        if (arg.ref && std::none_of(updated.begin(), updated.end(), known)) updated.push_back(guarded);
        if (written[variable] != 0 || read[variable] != 0 || at_[i]->turn < 0) continue;
        read[variable] = 1;
        at_[i]->read.push_back(guarded);
      }
    }
  }

  BoundPlan& bound_;
  const Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  VariableStore& variables_;
  Recheck& recheck_;
  std::vector<RecheckedInstruction*> at_;  // by node; null: no instruction
};

absl::StatusOr<std::unique_ptr<Recheck>> Recheck::Create(BoundPlan& bound, VariableStore& variables, double share,
                                                         absl::Duration short_step) {
  for (const auto& lane : bound.lanes) {
    if (!lane->asynchronous) continue;
    return absl::UnimplementedError(absl::StrCat("Ops are computed again on CPU devices only, and this step uses ",
                                                 bound.devices.device(lane->device).name().ToString(),
                                                 ": set SessionOptions::recheck (--recheck) ", "to 0"));
  }
  std::unique_ptr<Recheck> recheck(new Recheck(bound, PlanRecheck(*bound.plan, share, bound.devices.size())));
  RETURN_IF_ERROR(RecheckBinder(bound, variables, *recheck).Bind(short_step));
  return recheck;
}

}  // namespace belfry
