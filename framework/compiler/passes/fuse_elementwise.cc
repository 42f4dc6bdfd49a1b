#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/elementwise_codegen/kernel_source.h"
#include "framework/compiler/passes/passes.h"
#include "framework/compiler/passes/repeating_row.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// A member this close to its users may run with them without a noticeable effect on peak memory.
constexpr int kNear = 16;
// Blocks are whole multiples of kPieceUnit and of all rows that repeat. Beyond this many elements, a block's operands
// would no longer fit into the second-level cache.
constexpr int64_t kMaxUnit = 8192;

// Finds groups of nodes that can run as one node in the place of their last member.
//
// Invariant: nodes are in a topological order, and a group runs where its last member stood. So a member moves towards
// the end, past the nodes between it and the last one. That is allowed if
//   1. every user outside the group comes after the last member: otherwise the group would wait for itself. Grow looks
//      at candidates from the last on, when all users of a node have been decided, and Position tells where a user
//      that is in another group runs;
//   2. no variable that a member reads is written in between: otherwise the member would read a new value. The writers
//      that a node waits for are tracked (writers_before_), and MayWait compares those of the member and of the group;
//      Nor may a member read other elements of the variable that the group updates (ReadsElsewhere);
//   3. results do not get a shape that the group's loop does not have: all members have as many elements as the last
//      one, and their smaller operands repeat after a number of elements that divides a block (RepeatingRow, FitsUnit).
// Groups grow backwards from each possible end, so the longest chain wins and a node is in one group at most.
//
// Cost: Grow sees each edge of a group a few times, with a logarithm for the queue; writers_before_ is quadratic in the
// number of updates in the worst case, because each node behind all updates lists them all.
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
      if (std::optional<End> end = EndAt(i);
          end.has_value() && end->elements >= SmallestFor(nodes_[i]) && FitsUnit(i, end->row, unit)) {
        Grow(*end, unit);
      }
    }
    Redirect();
  }

 private:
  // The last member of a group.
  struct End {
    int node;
    int64_t elements;  // of all members
    int64_t row;       // as RepeatingRow
    bool updates;      // a variable, which is then the only result of the group that others may read
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
      // A node that only waits, and that nothing waits for, may come after anything, so it does not count as a user.
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
      // The ranks of a collective stand side by side and meet, so each waits for all that any of them waits for.
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
    return b.op->kind == OpKind::kAllReduce && a.collective == b.collective;
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

  // True if the node's device compiles kernels, and one that has the node as a member can be generated.
  bool IsGenerated(const ProgramNode& node) const {
    Device& device = devices_.device(node.device);
    return node.op->kind == OpKind::kKernel && device.type() != "CPU" && HasElementCode(node, device) &&
           device.CompilesKernels();
  }
  // A launch costs more than what few elements do; without fusion `smallest_` is larger than any result.
  int64_t SmallestFor(const ProgramNode& node) const {
    return RunsOnCpu(node) || smallest_ != kFuseFrom ? smallest_ : 1;
  }
  bool CanBeMember(const ProgramNode& node) const { return RunsOnCpu(node) || IsGenerated(node); }

  bool IsElementwise(int i) const {
    const ProgramNode& node = nodes_[i];
    return node.op->elementwise && !node.op->stateful && node.outputs.size() == 1 && CanBeMember(node);
  }
  // True for a node that moves elements, which a generated kernel does where it reads.
  bool IsMove(int i) const {
    const ProgramNode& node = nodes_[i];
    return !node.op->elementwise && node.op->element_code != nullptr && !node.op->stateful &&
           node.outputs.size() == 1 && IsGenerated(node) &&
           CodeOf(program_, node, devices_.device(node.device)).has_value();
  }

  // Nothing for a node that no group can end with.
  std::optional<End> EndAt(int i) const {
    const ProgramNode& node = nodes_[i];
    if (node.outputs.size() != 1 || !CanBeMember(node)) return std::nullopt;
    const bool updates = Updates(node);
    if (node.op->elementwise && (updates ? !IsRead(i) : !node.op->stateful)) {
      return End{i, node.outputs[0].shape.elements(), RepeatingRow(program_, nodes_[i]), updates};
    }
    if (reduced_row_[i] == 0) return std::nullopt;
    return End{i, program_.spec(node.inputs[0]).shape.elements(), reduced_row_[i], false};
  }

  // Reduction::row, or 0 for a node that is not a reduction that can be taken piece by piece.
  int64_t ReducedRow(const ProgramNode& node) const {
    if (!RunsOnCpu(node) || node.op->stateful || node.outputs.size() != 1) return 0;
    const KernelDef* def = node.op->FindKernel("CPU", KernelDType(*node.op, node.attrs));
    if (def->reduce == nullptr) return 0;
    std::vector<TensorSpec> inputs = InputSpecs(program_, node);
    for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
      if (node.op->input_arg(k).shape_only) inputs[k] = {};  // as the fused kernel will see it
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

  // True if blocks can be whole multiples of both `row` and `unit`; then `unit` becomes their least common multiple.
  // Generated kernels have no such blocks.
  bool FitsUnit(int i, int64_t row, int64_t& unit) const {
    if (!RunsOnCpu(nodes_[i])) return row != 0;
    const int64_t both = row == 0 ? 0 : std::lcm(unit, row);
    if (both == 0 || both > kMaxUnit) return false;
    unit = both;
    return true;
  }

  // True if node i computes as many elements as the group, on its device, in blocks of its unit, which may grow.
  bool Fits(int i, const End& end, int64_t& unit) const {
    return IsElementwise(i) && nodes_[i].outputs[0].shape.elements() == end.elements &&
           nodes_[i].device == nodes_[end.node].device && FitsUnit(i, RepeatingRow(program_, nodes_[i]), unit);
  }

  // The same for a node that moves elements.
  bool Fits(int i, const End& end) const {
    return nodes_[i].outputs[0].shape.elements() == end.elements && nodes_[i].device == nodes_[end.node].device;
  }

  // True if a member reads i in another place than its own, or as a number that is there before the first element, so
  // that i must run before the group.
  bool ComesBefore(int i, int last) const {
    return absl::c_any_of(users_[i], [&](int user) {
      if (group_[user] != last || RunsOnCpu(nodes_[user]) || IsAlias(user)) return false;
      const auto code = CodeOf(program_, nodes_[user], devices_.device(nodes_[user].device));
      return !code.has_value() || absl::c_any_of(AllInputs(nodes_[user], i), [&](int k) {
        return code->rows > 0 || !absl::c_linear_search(code->operands, k);
      });
    });
  }
  // True if i, as a member, would read elements of a variable that the group updates which are not those that it
  // computes from: a row or another part of it, or its transpose. Other threads may have updated them.
  bool ReadsElsewhere(int i, const End& end) const {
    if (!end.updates || IsAlias(i)) return false;
    const ProgramNode& update = nodes_[end.node];
    const auto elements = [&](const Value& value) { return program_.spec(value).shape.elements(); };
    const auto apart = [&](const Value& read, const Value& written) {
      const Value variable = Root(program_, read);
      if (!(variable == Root(program_, written))) return false;
      const bool both_whole = elements(read) == elements(variable) && elements(written) == elements(variable);
      return IsMove(i) || !(read == written || both_whole);
    };
    for (int k = 0; k < static_cast<int>(update.inputs.size()); ++k) {
      if (!update.op->input_arg(k).ref) continue;
      if (absl::c_any_of(nodes_[i].inputs, [&](const Value& read) { return apart(read, update.inputs[k]); }))
        return true;
    }
    return false;
  }
  // The inputs of a node that are i's result.
  static std::vector<int> AllInputs(const ProgramNode& node, int i) {
    std::vector<int> inputs;
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      if (node.inputs[k].node == i) inputs.push_back(k);
    }
    return inputs;
  }

  // The same for a reduction of a member. No member may read its result, which is complete only after the last block.
  bool Reduces(int i, const End& end, int64_t& unit) const {
    const int of = nodes_[i].inputs[0].node;
    return program_.spec(nodes_[i].inputs[0]).shape.elements() == end.elements && group_[of] == end.node &&
           IsElementwise(of) && nodes_[i].device == nodes_[end.node].device &&
           absl::c_none_of(users_[i], [&](int user) { return group_[user] == end.node; }) &&
           FitsUnit(i, reduced_row_[i], unit);
  }
  bool IsReduced(int i) const {
    return absl::c_any_of(users_[i], [&](int user) { return reduced_row_[user] > 0; });
  }

  // A view of all of its operand.
  bool IsAlias(int i) const {
    const ProgramNode& node = nodes_[i];
    return node.op->kind == OpKind::kView && node.control_inputs.empty() &&
           node.outputs[0].shape.elements() == program_.spec(node.inputs[0]).shape.elements();
  }

  // True if node i may run as late as `last`, behind the writers that `last` waits for. It may not if one of them
  // writes a variable that i reads, unless i waited for that write anyway. If others read i's result, they would wait
  // for these writers too, and might read variables themselves, so nothing may be added at all. Equal sizes mean equal
  // sets: what i waits for, `last` waits for as well.
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

  // True if a node outside the group reads the result of i. A node that only looks at its shape can look at that of the
  // last member instead, where that is the same.
  bool IsSeen(int i, int last) const {
    const bool alike = nodes_[i].outputs[0] == nodes_[last].outputs[0] && !Updates(nodes_[last]);
    const std::vector<int>& by = alike ? readers_[i] : users_[i];
    return wanted_[i] != 0 || absl::c_any_of(by, [&](int user) { return group_[user] != last; });
  }

  // Where a node runs: members run where the last member of their group does.
  int Position(int i) const { return group_[i] < 0 ? i : group_[i]; }

  // True if node i computes from variables, which are there all the time, so that it may become a member as well.
  bool IsOfVariables(int i) const {
    return IsElementwise(i) && absl::c_all_of(nodes_[i].inputs, [&](const Value& input) {
             return program_.spec(input).shape.elements() <= 1 ||
                    nodes_[Root(program_, input).node].op->kind == OpKind::kVariable;
           });
  }

  // True if moving i to its users would cost memory: far from them, two or more operands that would die at i stay alive
  // in place of its one result.
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

  // Makes a group of `end` and of the producers of its members' operands, as far as they fit. The queue hands out the
  // largest index first, so every user of a candidate that could be a member has been decided, and a candidate with a
  // user that runs before the end is refused (rule 1 above). Reductions of members are candidates, too.
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
      // A reduction that is an early user may still become a member; if it does not, the loop below drops the
      // candidate.
      const auto early = [&](int user) { return Position(user) < last && (end.updates || reduced_row_[user] == 0); };
      if (group_[i] >= 0 || absl::c_any_of(users_[i], early)) continue;
      const bool seen = IsSeen(i, last);
      if ((seen && end.updates) || ComesBefore(i, last) || ReadsElsewhere(i, end)) continue;
      if (IsMove(i)) {
        if (MayWait(i, last, seen) && Fits(i, end)) add(i);
      } else if (IsAlias(i)) {
        if (!seen && !IsReduced(i)) add(i);  // the axes of a reduction are those of the view
      } else if (reduced_row_[i] > 0) {
        if (MayWait(i, last, seen) && Reduces(i, end, unit)) add(i);
      } else if (MayWait(i, last, seen) && !IsFar(i, last) && Fits(i, end, unit)) {
        add(i);
      }
    }
    std::sort(members.begin(), members.end());
    // A view is skipped only if its operand is a member, and a reduction stays only with the member that it reduces.
    // Dropping one may give another member an early user, so repeat until nothing changes; each round drops at least
    // one.
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
    if (members.size() > 1 && !Merge(members, passed_over)) {
      for (int i : members) group_[i] = -1;
      for (int i : passed_over) group_[i] = -1;
    }
  }

  // Records the fused node that will stand where the last member is. Operands that are members become indices into its
  // body, others become its inputs, each once. Control inputs of the members become its own. Readers of a skipped view,
  // or of a member that is no output, only wait or look at the shape, so they are sent to the last output.
  // False, with nothing recorded, if no kernel can be generated.
  bool Merge(const std::vector<int>& members, const std::vector<int>& views) {
    const int last = members.back();
    ProgramNode fused{.name = nodes_[last].name,
                      .op = &ElementwiseOp(),
                      .attrs = {{"T", nodes_[last].outputs[0].dtype}},
                      .source = nodes_[last].source,
                      .device = nodes_[last].device,
                      .rank = nodes_[last].rank};
    HashMap<Value, int> inputs;
    HashMap<int, int> position;
    HashMap<int, Value> moved;
    for (int i : members) {
      ProgramNode member = nodes_[i];
      for (int k = 0; k < static_cast<int>(member.inputs.size()); ++k) {
        Value& input = member.inputs[k];
        while (group_[input.node] == last && IsAlias(input.node)) input = nodes_[input.node].inputs[0];
        if (member.op->input_arg(k).shape_only) {
          if (group_[input.node] != last) fused.control_inputs.push_back(input.node);
          input = {-1, -1};
          continue;
        }
        if (group_[input.node] == last) {
          input = {position.at(input.node), 0};
          continue;
        }
        const auto [at, inserted] = inputs.try_emplace(input, static_cast<int>(fused.inputs.size()));
        if (inserted) fused.inputs.push_back(input);
        input = {-1, at->second};
      }
      for (int control : member.control_inputs) {
        if (group_[control] != last) fused.control_inputs.push_back(control);
      }
      member.control_inputs.clear();
      const auto at = static_cast<int>(fused.body.size());
      position[i] = at;
      const bool updates = i == last && Updates(nodes_[i]);  // its variable is no output
      if (!updates && (i == last || reduced_row_[i] > 0 || IsSeen(i, last))) {
        moved[i] = {last, static_cast<int>(fused.results.size())};
        fused.results.push_back(at);
        fused.outputs.push_back(member.outputs[0]);
      }
      fused.body.push_back(std::move(member));
    }
    Device& device = devices_.device(fused.device);
    if (device.type() != "CPU" && !SourceOf(program_, fused, {}, 1, device, "").has_value()) return false;
    moved_.insert(moved.begin(), moved.end());
    const Value end = {last, static_cast<int>(fused.results.size()) - 1};
    for (int i : members) moved_.try_emplace(i, end);
    for (int i : views) moved_.try_emplace(i, end);
    fused_.emplace_back(last, std::move(fused));
    return true;
  }

  // Puts the fused nodes where their last members are, and redirects every reader to their outputs. Done once for all
  // groups, so that until then indices and values mean what they meant in the beginning.
  void Redirect() {
    for (auto& [last, fused] : fused_) nodes_[last] = std::move(fused);
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
  std::vector<std::vector<int>> users_;             // by node; see FindUses
  std::vector<std::vector<int>> readers_;           // by node: users that wait for it or read its bytes
  std::vector<char> wanted_;                        // by node: fetched, or a target
  std::vector<int64_t> reduced_row_;                // by node: as ReducedRow
  std::vector<std::vector<int>> writers_before_;    // by node: updates of variables that it waits for, ascending
  std::vector<int> group_;                          // by node: the last node of its group, or -1
  std::vector<std::pair<int, ProgramNode>> fused_;  // with the index of the last member
  HashMap<int, Value> moved_;                       // by member: the fused node's output that replaces its own
};

// Moves each reduction right behind its operand, so that no other user of the operand stands between the two.
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
