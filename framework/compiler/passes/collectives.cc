#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/passes/passes.h"
#include "framework/compiler/passes/variable_updates.h"

namespace belfry {
namespace {

// Ranks of one group, ascending, by the index of the node that carries each.
using Group = std::map<int64_t, int>;

absl::Status CheckGroup(const Program& program, const std::string& name, const Group& group) {
  const ProgramNode& first = program.nodes[group.begin()->second];
  const int64_t size = first.attrs.Int("size");
  // The towers of one process follow each other. Whether it is the only one is known where the collective is made.
  const int64_t from = group.begin()->first, to = group.rbegin()->first;
  if (to >= size || to - from + 1 != static_cast<int64_t>(group.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Collective '", name, "' is for ", size, " towers, but the graph has ", group.size(), " of them"));
  }
  for (const auto& [rank, index] : group) {
    const ProgramNode& node = program.nodes[index];
    const char* what = node.attrs.Int("size") != size                                      ? "their number"
                       : node.attrs.String("reduction") != first.attrs.String("reduction") ? "the reduction"
                       : node.outputs != first.outputs                                     ? "shapes"
                                                                                           : nullptr;
    if (what == nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("Collective '", name, "': the towers disagree on ", what, ": ",
                                                   Describe(first), " and ", Describe(node)));
  }
  return absl::OkStatus();
}

// By collective.
std::vector<Group> FindGroups(const Program& program) {
  std::vector<Group> groups(program.collectives.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    for (const int64_t rank : node.ranks) groups[node.collective][rank] = static_cast<int>(i);
  }
  return groups;
}

class Preparer {
 public:
  explicit Preparer(Program& program) : program_(program), replaced_by_(program.nodes.size(), -1) {}

  absl::Status DropLone() {
    const std::vector<Group> groups = FindGroups(program_);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (program_.collectives[i].size == 1) ForwardInputs(groups[i].begin()->second);
    }
    Redirect();
    return Normalize(program_);
  }

  absl::Status Run() {
    OwnInputs();
    RETURN_IF_ERROR(Normalize(program_));
    replaced_by_.assign(program_.nodes.size(), -1);
    for (const Group& group : FindGroups(program_)) MergeByDevice(group);
    Redirect();
    return Normalize(program_);
  }

 private:
  // The mean over one rank is its own value. The node stays as one that does nothing, for those that wait for it.
  void ForwardInputs(int index) {
    ProgramNode& node = program_.nodes[index];
    for (size_t i = 0; i < node.outputs.size(); ++i) moved_[{index, static_cast<int>(i)}] = node.inputs[i + 1];
    for (const Value& input : node.inputs) node.control_inputs.push_back(input.node);
    node.op = &OrderOp();
    node.collective = -1;
    node.ranks.clear();
    node.attrs = {};
    node.inputs.clear();
    node.outputs.clear();
  }

  void MergeByDevice(const Group& group) {
    std::map<int, int> by_device;
    for (const auto& [rank, index] : group) {
      ProgramNode& node = program_.nodes[index];
      const auto [first, inserted] = by_device.emplace(node.device, index);
      if (inserted) continue;
      ProgramNode& keeper = program_.nodes[first->second];
      keeper.ranks.push_back(rank);
      const auto offset = static_cast<int>(keeper.outputs.size());
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        moved_[{index, static_cast<int>(i)}] = {first->second, offset + static_cast<int>(i)};
      }
      keeper.inputs.insert(keeper.inputs.end(), node.inputs.begin(), node.inputs.end());
      keeper.outputs.insert(keeper.outputs.end(), node.outputs.begin(), node.outputs.end());
      keeper.control_inputs.insert(keeper.control_inputs.end(), node.control_inputs.begin(), node.control_inputs.end());
      replaced_by_[index] = first->second;
    }
  }

  Value Moved(Value value) const {
    for (auto found = moved_.find({value.node, value.index}); found != moved_.end();
         found = moved_.find({value.node, value.index})) {
      value = found->second;
    }
    return value;
  }

  void Redirect() {
    const auto kept = [&](int node) { return replaced_by_[node] < 0 ? node : replaced_by_[node]; };
    for (ProgramNode& node : program_.nodes) {
      for (Value& input : node.inputs) input = Moved(input);
      for (int& control : node.control_inputs) control = kept(control);
    }
    for (Value& fetch : program_.fetches) fetch = Moved(fetch);
    for (int& target : program_.targets) target = kept(target);
  }

  // A collective overwrites its inputs, so each of them but the weights must be a buffer that no other node reads.
  void OwnInputs() {
    HashMap<Value, int> uses;
    for (const ProgramNode& node : program_.nodes) {
      for (const Value& input : node.inputs) ++uses[input];
    }
    for (const Value& fetch : program_.fetches) ++uses[fetch];
    UpdatesBefore updates(program_);
    const auto size = static_cast<int>(program_.nodes.size());
    for (int i = 0; i < size; ++i) {
      if (program_.nodes[i].op->kind != OpKind::kAllReduce) continue;
      for (size_t k = 1; k < program_.nodes[i].inputs.size(); ++k) {
        const Value input = program_.nodes[i].inputs[k];
        const ProgramNode& producer = program_.nodes[input.node];
        const bool owned =
            producer.op->kind == OpKind::kKernel && uses[input] == 1 && !producer.op->output_arg(input.index).ref;
        if (owned) continue;
        const Value copy = AddCopy(program_, CopyOp(), input, program_.nodes[i].device, program_.nodes[i].rank);
        program_.nodes[i].inputs[k] = copy;
        program_.nodes[copy.node].control_inputs = updates.Of(Root(program_, input).node, i);
      }
    }
  }

  Program& program_;
  std::vector<int> replaced_by_;  // by node: the node that took over its ranks, or -1
  HashMap<std::pair<int, int>, Value> moved_;
};

}  // namespace

absl::Status FindCollectives(Program& program) {
  std::map<std::string, Group> groups;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& node = program.nodes[i];
    if (node.op->kind != OpKind::kAllReduce) continue;
    node.ranks = {node.attrs.Int("rank")};
    const std::string& name = node.attrs.String("group");
    if (groups[name].emplace(node.ranks[0], static_cast<int>(i)).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Collective '", name, "' has rank ", node.ranks[0], " twice: ", Describe(node)));
  }
  for (const auto& [name, group] : groups) {
    RETURN_IF_ERROR(CheckGroup(program, name, group));
    for (const auto& [rank, index] : group) {
      program.nodes[index].collective = static_cast<int>(program.collectives.size());
    }
    program.collectives.push_back({name, program.nodes[group.begin()->second].attrs.Int("size")});
  }
  return absl::OkStatus();
}

absl::Status DropLoneCollectives(Program& program) { return Preparer(program).DropLone(); }
absl::Status PrepareCollectives(Program& program) { return Preparer(program).Run(); }

}  // namespace belfry
