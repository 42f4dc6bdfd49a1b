#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/compiler/passes/passes.h"
#include "framework/compiler/plan.h"

namespace belfry {
namespace {

// The share of its peak that a program may keep in another order: the one in which the graph was built is kinder to
// caches, and not worth changing for less.
constexpr double kWorthMoving = 0.97;

// Moves nodes of a program within what their dependencies allow. A node whose results are larger than the operands
// that it is the last to read is moved to its first user, so that these are held instead meanwhile; one whose results
// are smaller, to its last operand. Neither holds more at any moment between. Collectives and updates stay.
//
// Cost: a walk over the nodes between for each move.
class NodeMover {
 public:
  explicit NodeMover(const Program& program)
      : nodes_(program.nodes),
        size_(static_cast<int>(nodes_.size())),
        order_(size_),
        place_(size_),
        users_(size_),
        owners_(size_),
        readers_(size_),
        fetched_(size_, 0) {
    std::iota(order_.begin(), order_.end(), 0);
    std::iota(place_.begin(), place_.end(), 0);
    for (int i = 0; i < size_; ++i) {
      const ProgramNode& node = nodes_[i];
      for (const Value& input : node.inputs) users_[input.node].push_back(i);
      for (int control : node.control_inputs) users_[control].push_back(i);
      if (!Runs(node)) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (InputArg(node, static_cast<int>(k)).shape_only) continue;
        const Value root = Root(program, node.inputs[k]);
        const OpKind kind = nodes_[root.node].op->kind;
        if (kind != OpKind::kKernel && kind != OpKind::kPlaceholder && kind != OpKind::kAllReduce) continue;
        if (absl::c_linear_search(owners_[i], root)) continue;
        owners_[i].push_back(root);
        readers_[root.node].push_back({i, root.index});
      }
    }
    for (const Value& fetch : program.fetches) fetched_[Root(program, fetch).node] = 1;
  }

  void MoveDown() {
    for (int at = size_; at-- > 0;) {
      const int i = order_[at];
      if (users_[i].empty()) continue;
      if (nodes_[i].op->kind != OpKind::kView && (!CanMove(i) || BytesMade(i) <= BytesFreed(i))) continue;
      int first = size_;
      for (int user : users_[i]) first = std::min(first, place_[user]);
      Move(at, first - 1);
    }
  }

  void MoveUp() {
    for (int at = 0; at < size_; ++at) {
      const int i = order_[at];
      if (nodes_[i].op->kind != OpKind::kView && (!CanMove(i) || BytesMade(i) >= BytesFreed(i))) continue;
      int last = -1;
      for (const Value& input : nodes_[i].inputs) last = std::max(last, place_[input.node]);
      for (int control : nodes_[i].control_inputs) last = std::max(last, place_[control]);
      Move(at, last + 1);
    }
  }

  // The most bytes of outputs that a device holds at one moment.
  int64_t Peak(int devices) const {
    std::vector<int64_t> live(devices, 0);
    int64_t peak = 0;
    for (int i : order_) {
      if (nodes_[i].op->kind != OpKind::kKernel) continue;
      int64_t& held = live[nodes_[i].device];
      held += BytesMade(i);
      peak = std::max(peak, held - BytesInPlace(i));
      held -= BytesFreed(i);
    }
    return peak;
  }

  // Puts the nodes of `program`, from which this was made, into the new order.
  void Reorder(Program& program) const {
    std::vector<ProgramNode> nodes;
    nodes.reserve(program.nodes.size());
    for (int i : order_) {
      nodes.push_back(std::move(program.nodes[i]));
      for (Value& input : nodes.back().inputs) input.node = place_[input.node];
      for (int& control : nodes.back().control_inputs) control = place_[control];
    }
    program.nodes = std::move(nodes);
    for (Value& value : program.feeds) value.node = place_[value.node];
    for (Value& value : program.fetches) value.node = place_[value.node];
    for (int& target : program.targets) target = place_[target];
  }

 private:
  bool CanMove(int i) const {
    return nodes_[i].op->kind == OpKind::kKernel && !nodes_[i].op->stateful && !Updates(nodes_[i]);
  }

  int64_t BytesMade(int i) const {
    int64_t bytes = 0;
    for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
      if (!nodes_[i].op->output_arg(static_cast<int>(k)).ref && IsRead({i, static_cast<int>(k)})) {
        bytes += static_cast<int64_t>(nodes_[i].outputs[k].bytes());
      }
    }
    return bytes;
  }

  bool IsRead(Value value) const {
    return fetched_[value.node] ||
           absl::c_any_of(readers_[value.node], [&](const auto& reader) { return reader.second == value.index; });
  }

  // True if node i is the last that reads the value.
  bool Frees(int i, Value value) const {
    return !fetched_[value.node] && nodes_[value.node].op->kind == OpKind::kKernel &&
           nodes_[value.node].device == nodes_[i].device &&
           absl::c_all_of(readers_[value.node], [&](const auto& reader) {
             return reader.second != value.index || place_[reader.first] <= place_[i];
           });
  }

  int64_t BytesFreed(int i) const {
    int64_t bytes = 0;
    for (const Value& value : owners_[i]) {
      if (Frees(i, value)) bytes += static_cast<int64_t>(nodes_[value.node].outputs[value.index].bytes());
    }
    return bytes;
  }

  int64_t BytesInPlace(int i) const {
    int64_t bytes = 0;
    for (const auto& [input, output] : InPlace(nodes_[i])) {
      if (input >= static_cast<int>(nodes_[i].inputs.size()) || output >= static_cast<int>(nodes_[i].outputs.size()))
        continue;
      const Value value = nodes_[i].inputs[input];
      if (nodes_[value.node].outputs[value.index] == nodes_[i].outputs[output] && Frees(i, value)) {
        bytes = std::max(bytes, static_cast<int64_t>(nodes_[i].outputs[output].bytes()));
      }
    }
    return bytes;
  }

  void Move(int from, int to) {
    if (from == to) return;
    const auto begin = order_.begin();
    if (from < to) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
    for (int at = std::min(from, to); at <= std::max(from, to); ++at) place_[order_[at]] = at;
  }

  const std::vector<ProgramNode>& nodes_;
  const int size_;
  std::vector<int> order_, place_;                         // nodes in order; by node, its position there
  std::vector<std::vector<int>> users_;                    // by node: those that wait for it
  std::vector<std::vector<Value>> owners_;                 // by node: the values that own what it reads
  std::vector<std::vector<std::pair<int, int>>> readers_;  // by node: who reads its outputs, and which
  std::vector<char> fetched_;
};

}  // namespace

void LowerPeak(Program& program, int devices) {
  NodeMover mover(program);
  const int64_t before = mover.Peak(devices);
  mover.MoveDown();
  mover.MoveUp();
  if (static_cast<double>(mover.Peak(devices)) <= kWorthMoving * static_cast<double>(before)) mover.Reorder(program);
}

}  // namespace belfry
