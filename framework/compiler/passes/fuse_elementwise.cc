#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/status.h"
#include "framework/compiler/passes/passes.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// Nodes between two that are fused may be so many before their order matters to memory.
constexpr int kNear = 16;
// Blocks are whole multiples of kPieceUnit and of all rows of a pass, which must be few enough elements for a few
// operands to stay in the second-level cache.
constexpr int64_t kLargestUnit = 8192;

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
        reduced_row_(nodes_.size(), 0),
        writers_before_(nodes_.size()),
        group_(nodes_.size(), -1) {}

  void Run() {
    FindUses();
    for (int i = static_cast<int>(nodes_.size()); i-- > 0;) {
      if (group_[i] >= 0) continue;
      int64_t unit = kPieceUnit;
      if (std::optional<End> end = EndAt(i); end.has_value() && end->elements >= smallest_ && Joins(end->row, unit)) {
        Grow(*end, unit);
      }
    }
    Redirect();
  }

 private:
  // The last member of a pass.
  struct End {
    int node;
    int64_t elements;  // of all members
    int64_t row;       // as RowOf
    bool updates;      // a variable; then it is all that is seen of the pass
  };

  void FindUses() {
    const auto size = static_cast<int>(nodes_.size());
    std::vector<char> awaited(size, 0);
    for (const ProgramNode& node : nodes_) {
      for (const Value& input : node.inputs) awaited[input.node] = 1;
      for (int control : node.control_inputs) awaited[control] = 1;
    }
    std::vector<char> writes(size, 0);
    for (int i = 0; i < size; ++i) {
      const ProgramNode& node = nodes_[i];
      reduced_row_[i] = ReducedRow(node);
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
      // What only waits, and nobody waits for, may come after anything, so it is no user.
      const bool only_waits = node.op->kind == OpKind::kNoOp && awaited[i] == 0;
      for (int control : node.control_inputs) {
        if (only_waits) continue;
        users_[control].push_back(i);
        readers_[control].push_back(i);
      }
      for (const Value& input : node.inputs) wait(input.node);
      for (int control : node.control_inputs) wait(control);
      writes[i] = Updates(node) ? 1 : 0;
      SortUnique(before);
      // All ranks of a collective, which come one after the other, wait for what one of them waits for.
      if (node.op->kind == OpKind::kAllReduce && i > 0 && IsSameCollective(node, nodes_[i - 1])) {
        std::vector<int>& others = writers_before_[i - 1];
        before.insert(before.end(), others.begin(), others.end());
        SortUnique(before);
        for (int rank = i - 1; rank >= 0 && IsSameCollective(node, nodes_[rank]); --rank)
          writers_before_[rank] = before;
      }
    }
    for (const Value& fetch : program_.fetches) wanted_[fetch.node] = 1;
    for (int target : program_.targets) wanted_[target] = 1;
  }

  static void SortUnique(std::vector<int>& nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
  static bool IsSameCollective(const ProgramNode& a, const ProgramNode& b) {
    return b.op->kind == OpKind::kAllReduce && a.attrs.String("group") == b.attrs.String("group");
  }

  // The variables that a node writes.
  std::vector<Value> Updated(const ProgramNode& node) const {
    std::vector<Value> variables;
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      if (node.op->input_arg(k).ref) variables.push_back(Root(program_, node.inputs[k]));
    }
    return variables;
  }

  bool RunsOnCpu(const ProgramNode& node) const {
    return node.op->kind == OpKind::kKernel && devices_.device(node.device).type() == "CPU" &&
           node.op->FindKernel("CPU", KernelDType(*node.op, node.attrs)) != nullptr;
  }

  bool IsElementwise(int i) const {
    const ProgramNode& node = nodes_[i];
    return node.op->elementwise && !node.op->stateful && node.outputs.size() == 1 && RunsOnCpu(node);
  }

  // Nothing for a node that no pass can end with.
  std::optional<End> EndAt(int i) const {
    const ProgramNode& node = nodes_[i];
    if (node.outputs.size() != 1 || !RunsOnCpu(node)) return std::nullopt;
    const bool updates = Updates(node);
    if (node.op->elementwise && (updates ? !IsRead(i) : !node.op->stateful)) {
      return End{i, node.outputs[0].shape.elements(), RowOf(i), updates};
    }
    if (reduced_row_[i] == 0) return std::nullopt;
    return End{i, program_.spec(node.inputs[0]).shape.elements(), reduced_row_[i], false};
  }

  // Reduction::row, or 0 for a node that a pass cannot reduce by.
  int64_t ReducedRow(const ProgramNode& node) const {
    if (!RunsOnCpu(node) || node.op->stateful || node.outputs.size() != 1) return 0;
    const KernelDef* def = node.op->FindKernel("CPU", KernelDType(*node.op, node.attrs));
    if (def->reduce == nullptr) return 0;
    std::vector<TensorSpec> inputs = InputSpecs(program_, node);
    for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
      if (node.op->input_arg(k).shape_only) inputs[k] = {};  // as the kernel of the pass will see it
    }
    const auto reduction = def->reduce({node.name, node.attrs, inputs, node.outputs, &devices_.device(node.device)});
    return reduction.has_value() ? reduction->row : 0;
  }

  bool IsRead(int i) const {
    return absl::c_any_of(users_[i],
                          [&](int user) {
                            return absl::c_any_of(nodes_[user].inputs,
                                                  [&](const Value& input) { return input.node == i; });
                          }) ||
           absl::c_any_of(program_.fetches, [&](const Value& fetch) { return fetch.node == i; });
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
      if (arg.ref || arg.shape_only || from.elements() == to.elements() || from.elements() == 1) continue;
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

  // Rows of `row` elements go into blocks of `unit` elements; makes `unit` that of both.
  static bool Joins(int64_t row, int64_t& unit) {
    const int64_t both = row == 0 ? 0 : std::lcm(unit, row);
    if (both == 0 || both > kLargestUnit) return false;
    unit = both;
    return true;
  }

  // Node i may be in a group that ends so, whose rows have `unit` elements; makes `unit` the group's with it.
  bool Fits(int i, const End& end, int64_t& unit) const {
    return IsElementwise(i) && nodes_[i].outputs[0].shape.elements() == end.elements &&
           nodes_[i].device == nodes_[end.node].device && Joins(RowOf(i), unit);
  }

  // The same for a reduction of a member, which no member may read.
  bool Reduces(int i, const End& end, int64_t& unit) const {
    const int of = nodes_[i].inputs[0].node;
    return program_.spec(nodes_[i].inputs[0]).shape.elements() == end.elements && group_[of] == end.node &&
           IsElementwise(of) && nodes_[i].device == nodes_[end.node].device &&
           absl::c_none_of(users_[i], [&](int user) { return group_[user] == end.node; }) &&
           Joins(reduced_row_[i], unit);
  }
  bool IsReduced(int i) const {
    return absl::c_any_of(users_[i], [&](int user) { return reduced_row_[user] > 0; });
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

  // Whoever looks at its shape only can look at that of the last result, if that is one.
  bool IsSeen(int i, int last) const {
    const bool alike = nodes_[i].outputs[0] == nodes_[last].outputs[0] && !Updates(nodes_[last]);
    const std::vector<int>& by = alike ? readers_[i] : users_[i];
    return wanted_[i] != 0 || absl::c_any_of(by, [&](int user) { return group_[user] != last; });
  }

  // Where a node comes in an order in which all come after what they wait for: a group, where its last member does.
  int Position(int i) const { return group_[i] < 0 ? i : group_[i]; }

  // Computed from what is kept anyway; it may become a member, too.
  bool IsOfVariables(int i) const {
    return IsElementwise(i) && absl::c_all_of(nodes_[i].inputs, [&](const Value& input) {
             return program_.spec(input).shape.elements() <= 1 ||
                    nodes_[Root(program_, input).node].op->kind == OpKind::kVariable;
           });
  }

  // A member far from its users keeps all its operands until then, instead of one result.
  bool IsFar(int i, int last) const {
    int first = last;
    for (int user : users_[i]) {
      if (group_[user] == last) first = std::min(first, user);
    }
    if (first - i <= kNear) return false;
    const auto dies = [&](const Value& input) {
      return program_.spec(input).shape.elements() > 1 && users_[input.node].back() == i && !IsOfVariables(input.node);
    };
    return absl::c_count_if(nodes_[i].inputs, dies) > 1;
  }

  // Producers of operands, and theirs, that fit; taken from the last on, so that all users of a node were looked at
  // before it. Users outside the group come after it, so that nothing that the group waits for waits for the group.
  // So do those of reductions of members.
  void Grow(const End& end, int64_t unit) {
    const int last = end.node;
    std::priority_queue<int> candidates;
    std::vector<int> members;
    const auto add = [&](int i) {
      group_[i] = last;
      members.push_back(i);
      for (const Value& input : nodes_[i].inputs) candidates.push(input.node);
      for (int user : users_[i]) {
        if (user < last && reduced_row_[user] > 0) candidates.push(user);
      }
    };
    add(last);
    while (!candidates.empty()) {
      const int i = candidates.top();
      candidates.pop();
      // A reduction may yet join.
      const auto early = [&](int user) { return Position(user) < last && (end.updates || reduced_row_[user] == 0); };
      if (group_[i] >= 0 || absl::c_any_of(users_[i], early)) continue;
      const bool seen = IsSeen(i, last);
      if (seen && end.updates) continue;
      if (IsAlias(i)) {
        if (!seen && !IsReduced(i)) add(i);  // the axes of a reduction are those of the view
      } else if (reduced_row_[i] > 0) {
        if (MayWait(i, last, seen) && Reduces(i, end, unit)) add(i);
      } else if (MayWait(i, last, seen) && !IsFar(i, last) && Fits(i, end, unit)) {
        add(i);
      }
    }
    std::sort(members.begin(), members.end());
    // A view is passed over only if what it shows is in the group, too, and a reduction is there for what it reduces.
    // Without them, what only they had users among may have to come before the group.
    for (bool changed = true; changed;) {
      changed = false;
      for (int i : members) {
        if (i == last || group_[i] != last) continue;
        const bool early = absl::c_any_of(users_[i], [&](int user) { return Position(user) < last; });
        const bool follows = IsAlias(i) || reduced_row_[i] > 0;
        if (!early && (!follows || group_[nodes_[i].inputs[0].node] == last)) continue;
        group_[i] = -1;
        changed = true;
      }
    }
    members.erase(std::remove_if(members.begin(), members.end(), [&](int i) { return group_[i] != last; }),
                  members.end());
    const auto views = std::stable_partition(members.begin(), members.end(), [&](int i) { return !IsAlias(i); });
    const std::vector<int> passed_over(views, members.end());
    members.erase(views, members.end());
    if (members.size() > 1) Merge(members, passed_over);
  }

  // The last member becomes the pass. Who waits for a view that was passed over waits for it.
  void Merge(const std::vector<int>& members, const std::vector<int>& views) {
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
      const bool updates = i == last && Updates(nodes_[i]);  // what it updates is no output
      if (!updates && (i == last || reduced_row_[i] > 0 || IsSeen(i, last))) {
        moved_[i] = {last, static_cast<int>(pass.results.size())};
        pass.results.push_back(at);
        pass.outputs.push_back(member.outputs[0]);
      }
      pass.body.push_back(std::move(member));
    }
    const Value end = {last, static_cast<int>(pass.results.size()) - 1};
    for (int i : members) moved_.try_emplace(i, end);
    for (int i : views) moved_.try_emplace(i, end);
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
  std::vector<std::vector<int>> users_;              // by node; see FindUses
  std::vector<std::vector<int>> readers_;            // by node: those users that wait for it or look at its bytes
  std::vector<char> wanted_;                         // by node: fetched, or a target
  std::vector<int64_t> reduced_row_;                 // by node: as ReducedRow
  std::vector<std::vector<int>> writers_before_;     // by node: updates of variables that it waits for, ascending
  std::vector<int> group_;                           // by node: the last node of its group, or -1
  std::vector<std::pair<int, ProgramNode>> passes_;  // with their last nodes
  absl::flat_hash_map<int, Value> moved_;            // by node: the pass's output that is its output now
};

// A reduction comes right after what it reduces, so that no other user of that comes before it.
absl::Status ReduceEarly(Program& program, const DeviceSet& devices) {
  for (ProgramNode& node : program.nodes) {
    if (node.op->kind != OpKind::kKernel || node.inputs.empty() || !node.control_inputs.empty()) continue;
    const KernelDef* def = node.op->FindKernel(devices.device(node.device).type(), KernelDType(*node.op, node.attrs));
    const ProgramNode& of = program.nodes[node.inputs[0].node];
    if (def != nullptr && def->reduce != nullptr && of.op->elementwise) node.rank = std::min(node.rank, of.rank);
  }
  return Normalize(program);
}

}  // namespace

absl::Status FuseElementwise(Program& program, const DeviceSet& devices, int64_t smallest) {
  RETURN_IF_ERROR(ReduceEarly(program, devices));
  ElementwiseFuser(program, devices, smallest).Run();
  return Normalize(program);
}

}  // namespace belfry
