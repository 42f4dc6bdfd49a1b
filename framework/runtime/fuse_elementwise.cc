#include <algorithm>
#include <numeric>
#include <queue>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "framework/graph/infer.h"
#include "framework/runtime/elementwise_kernel.h"
#include "framework/runtime/passes.h"

namespace belfry {
namespace {

// Nodes between two that are fused may be so many before their order matters to memory.
constexpr int kNear = 16;
// Blocks are whole multiples of kBlockUnit and of all rows of a pass, at most so many elements.
constexpr int64_t kLargestUnit = 2048;

class ElementwiseFuser {
 public:
  ElementwiseFuser(Program& program, const DeviceSet& devices, int64_t smallest)
      : program_(program),
        nodes_(program.nodes),
        devices_(devices),
        smallest_(smallest),
        users_(nodes_.size()),
        readers_(nodes_.size()),
        wanted_(nodes_.size(), 0),
        writers_before_(nodes_.size()),
        group_(nodes_.size(), -1) {}

  void Run() {
    FindUses();
    for (int i = static_cast<int>(nodes_.size()); i-- > 0;) {
      int64_t unit = kBlockUnit;
      if (group_[i] < 0 && IsLarge(i) && Fits(i, i, unit)) Grow(i, unit);
    }
    Redirect();
  }

 private:
  void FindUses() {
    const auto size = static_cast<int>(nodes_.size());
    absl::flat_hash_map<Value, int> last_writer;  // by variable
    std::vector<char> writes(size, 0);
    for (int i = 0; i < size; ++i) {
      const ProgramNode& node = nodes_[i];
      std::vector<int>& before = writers_before_[i];
      const auto wait = [&](int from) {
        const std::vector<int>& earlier = writers_before_[from];
        before.insert(before.end(), earlier.begin(), earlier.end());
        if (writes[from] != 0) before.push_back(from);
      };
      for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
        users_[node.inputs[k].node].push_back(i);
        if (!node.op->input_arg(k).shape_only) readers_[node.inputs[k].node].push_back(i);
      }
      for (int control : node.control_inputs) {
        users_[control].push_back(i);
        readers_[control].push_back(i);
      }
      for (const Value& input : node.inputs) wait(input.node);
      for (int control : node.control_inputs) wait(control);
      for (const Value& variable : Updated(node)) {
        const auto [former, first] = last_writer.try_emplace(variable, i);
        if (!first) wait(former->second);  // Order
        former->second = i;
        writes[i] = 1;
      }
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
    }
    for (const Value& fetch : program_.fetches) wanted_[fetch.node] = 1;
    for (int target : program_.targets) wanted_[target] = 1;
  }

  // The variables that a node writes.
  std::vector<Value> Updated(const ProgramNode& node) const {
    std::vector<Value> variables;
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      if (node.op->input_arg(k).ref) variables.push_back(Root(program_, node.inputs[k]));
    }
    return variables;
  }

  bool IsLarge(int i) const {
    return nodes_[i].outputs.size() == 1 && nodes_[i].outputs[0].shape.elements() >= smallest_;
  }

  bool IsElementwise(int i) const {
    const ProgramNode& node = nodes_[i];
    if (!node.op->elementwise || node.op->kind != OpKind::kKernel || node.op->stateful || node.outputs.size() != 1) {
      return false;
    }
    return devices_.device(node.device).type() == "CPU" &&
           node.op->FindKernel("CPU", KernelDType(*node.op, node.attrs)) != nullptr;
  }

  // The elements after which the operands of node i that are smaller than its result begin anew, 1 if there is none; 0
  // if it cannot be part of a pass.
  int64_t RowOf(int i) const {
    const ProgramNode& node = nodes_[i];
    const Shape& to = node.outputs[0].shape;
    int64_t row = 1;
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      const ArgDef& arg = node.op->input_arg(k);
      const Shape& from = program_.spec(node.inputs[k]).shape;
      if (arg.ref) return 0;
      if (arg.shape_only || from.elements() == to.elements() || from.elements() == 1) continue;
      const bool repeats = IsTail(from, to) && (row == 1 || row == from.elements());
      if (!repeats) return 0;
      row = from.elements();
    }
    return row;
  }

  // Broadcasting `from` to `to` repeats it as a whole.
  static bool IsTail(const Shape& from, const Shape& to) {
    int first = 0;
    while (first < from.rank() && from[first] == 1) ++first;
    for (int axis = first; axis < from.rank(); ++axis) {
      const int at = axis + to.rank() - from.rank();
      if (at < 0 || from[axis] != to[at]) return false;
    }
    return true;
  }

  // Node i may be in a group with `last` whose rows have `unit` elements; makes `unit` the group's with it.
  bool Fits(int i, int last, int64_t& unit) const {
    const ProgramNode &node = nodes_[i], &end = nodes_[last];
    if (node.outputs.empty() || node.outputs[0].shape.elements() != end.outputs[0].shape.elements()) return false;
    if (node.device != end.device || !IsElementwise(i)) return false;
    const int64_t row = RowOf(i), both = row == 0 ? 0 : std::lcm(unit, row);
    if (both == 0 || both > kLargestUnit) return false;
    unit = both;
    return true;
  }

  bool IsAlias(int i) const { return nodes_[i].op->kind == OpKind::kView && nodes_[i].control_inputs.empty(); }

  // The group waits for all that `last` waits for. A variable that `i` reads must not be updated by then, unless it was
  // before `i`; nor one that somebody outside reads, if `i` is seen there.
  bool MayWait(int i, int last, bool seen) const {
    if (writers_before_[i].size() == writers_before_[last].size()) return true;
    if (seen) return false;
    return absl::c_none_of(nodes_[i].inputs, [&](const Value& input) {
      const Value variable = Root(program_, input);
      return absl::c_any_of(writers_before_[last], [&](int writer) {
        return absl::c_linear_search(Updated(nodes_[writer]), variable) &&
               !absl::c_binary_search(writers_before_[i], writer);
      });
    });
  }

  // Whoever looks at its shape only can look at that of the last result.
  bool IsSeen(int i, int last) const {
    const std::vector<int>& by = nodes_[i].outputs[0] == nodes_[last].outputs[0] ? readers_[i] : users_[i];
    return wanted_[i] != 0 || absl::c_any_of(by, [&](int user) { return group_[user] != last; });
  }

  // Where a node comes in an order in which all come after what they wait for: a group, where its last member does.
  int Position(int i) const { return group_[i] < 0 ? i : group_[i]; }

  // A member far from its users keeps all its operands until then, instead of one result.
  bool IsFar(int i, int last) const {
    int first = last;
    for (int user : users_[i]) {
      if (group_[user] == last) first = std::min(first, user);
    }
    if (first - i <= kNear) return false;
    const auto dies = [&](const Value& input) {
      return program_.spec(input).shape.elements() > 1 && users_[input.node].back() == i;
    };
    return absl::c_count_if(nodes_[i].inputs, dies) > 1;
  }

  // Producers of operands, and theirs, that fit; taken from the last on, so that all users of a node were looked at
  // before it. Users outside the group come after it, so that nothing that the group waits for waits for the group.
  void Grow(int last, int64_t unit) {
    std::priority_queue<int> candidates;
    std::vector<int> members;
    const auto add = [&](int i) {
      group_[i] = last;
      members.push_back(i);
      for (const Value& input : nodes_[i].inputs) candidates.push(input.node);
    };
    add(last);
    while (!candidates.empty()) {
      const int i = candidates.top();
      candidates.pop();
      if (group_[i] >= 0 || absl::c_any_of(users_[i], [&](int user) { return Position(user) < last; })) continue;
      const bool seen = IsSeen(i, last);
      if (IsAlias(i) ? !seen : MayWait(i, last, seen) && !IsFar(i, last) && Fits(i, last, unit)) add(i);
    }
    std::sort(members.begin(), members.end());
    // A view is passed over only if what it shows is in the group, too. Without it, what only it had users among may
    // have to come before the group.
    for (bool changed = true; changed;) {
      changed = false;
      for (int i : members) {
        if (i == last || group_[i] != last) continue;
        const bool early = absl::c_any_of(users_[i], [&](int user) { return Position(user) < last; });
        if (!early && (!IsAlias(i) || group_[nodes_[i].inputs[0].node] == last)) continue;
        group_[i] = -1;
        changed = true;
      }
    }
    const auto gone = [&](int i) { return group_[i] != last || IsAlias(i); };
    members.erase(std::remove_if(members.begin(), members.end(), gone), members.end());
    if (members.size() > 1) Merge(members);
  }

  // The last member becomes the pass.
  void Merge(const std::vector<int>& members) {
    const int last = members.back();
    ProgramNode pass{.name = nodes_[last].name,
                     .op = &ElementwiseOp(),
                     .attrs = {{"T", nodes_[last].outputs[0].dtype}},
                     .source = nodes_[last].source,
                     .device = nodes_[last].device,
                     .rank = nodes_[last].rank};
    absl::flat_hash_map<Value, int> inputs;
    absl::flat_hash_map<int, int> position;
    for (int i : members) {
      ProgramNode member = nodes_[i];
      for (int k = 0; k < static_cast<int>(member.inputs.size()); ++k) {
        Value& input = member.inputs[k];
        while (group_[input.node] == last && IsAlias(input.node)) input = nodes_[input.node].inputs[0];
        if (member.op->input_arg(k).shape_only) {
          if (group_[input.node] != last) pass.control_inputs.push_back(input.node);
          input = {-1, -1};
          continue;
        }
        if (group_[input.node] == last) {
          input = {position.at(input.node), 0};
          continue;
        }
        const auto [at, inserted] = inputs.try_emplace(input, static_cast<int>(pass.inputs.size()));
        if (inserted) pass.inputs.push_back(input);
        input = {-1, at->second};
      }
      for (int control : member.control_inputs) {
        if (group_[control] != last) pass.control_inputs.push_back(control);
      }
      member.control_inputs.clear();
      const auto at = static_cast<int>(pass.body.size());
      position[i] = at;
      if (i == last || IsSeen(i, last)) {
        moved_[i] = {last, static_cast<int>(pass.results.size())};
        pass.results.push_back(at);
        pass.outputs.push_back(member.outputs[0]);
      }
      pass.body.push_back(std::move(member));
    }
    const Value end = moved_.at(last);
    for (int i : members) moved_.try_emplace(i, end);
    passes_.emplace_back(last, std::move(pass));
  }

  // Puts the passes where their last members are, and has all name their outputs.
  void Redirect() {
    for (auto& [last, pass] : passes_) nodes_[last] = std::move(pass);
    const auto move = [&](Value& value) {
      if (const auto found = moved_.find(value.node); found != moved_.end()) value = found->second;
    };
    const auto move_node = [&](int& node) {
      if (const auto found = moved_.find(node); found != moved_.end()) node = found->second.node;
    };
    for (ProgramNode& node : nodes_) {
      for (Value& input : node.inputs) move(input);
      for (int& control : node.control_inputs) move_node(control);
    }
    for (Value& fetch : program_.fetches) move(fetch);
    for (int& target : program_.targets) move_node(target);
  }

  Program& program_;
  std::vector<ProgramNode>& nodes_;
  const DeviceSet& devices_;
  const int64_t smallest_;
  std::vector<std::vector<int>> users_;              // by node
  std::vector<std::vector<int>> readers_;            // by node: those users that wait for it or look at its bytes
  std::vector<char> wanted_;                         // by node: fetched, or a target
  std::vector<std::vector<int>> writers_before_;     // by node: updates of variables that it waits for, ascending
  std::vector<int> group_;                           // by node: the last node of its group, or -1
  std::vector<std::pair<int, ProgramNode>> passes_;  // with their last nodes
  absl::flat_hash_map<int, Value> moved_;            // by node: the pass's output that is its output now
};

}  // namespace

absl::Status FuseElementwise(Program& program, const DeviceSet& devices, int64_t smallest) {
  ElementwiseFuser(program, devices, smallest).Run();
  return Normalize(program);
}

}  // namespace belfry
