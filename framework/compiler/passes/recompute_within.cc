#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/fit_memory.h"
#include "framework/compiler/plan_report.h"

namespace belfry {
namespace {

// Values that are this many times smaller than the largest are not worth dropping.
constexpr size_t kWorthDropping = 256;
// Nodes that may run again, as a multiple of those of the program: a budget below what a step needs would have it
// compute everything again and again.
constexpr int kMostRepeats = 1;
// Floating-point operations that take as long as moving a byte: 100 GFLOP/s at 10 GB/s on a core, 60 TFLOP/s at 3 TB/s
// on a GPU.
constexpr double kFlopsPerByte = 10;

// An output of a kernel, or a feed, on the device.
struct HeldValue {
  Value original = {}, now = {};  // `now`: the output that has its bytes, of the program or of a node that is added
  size_t bytes = 0;
  std::vector<int> uses = {};  // nodes that read it, ascending
  size_t next = 0;             // the first of `uses` that is still to come
  int until = -1;              // another value will be computed from it again before this node
  int locks = 0;               // nodes about to run that read it
  bool there = false;
  bool droppable = false;

  bool wanted() const { return next < uses.size(); }
  int next_use() const { return uses[next]; }
  int last_use() const { return uses.empty() ? -1 : uses.back(); }
};

bool Reads(const ProgramNode& node, size_t input) { return !InputArg(node, static_cast<int>(input)).shape_only; }

// The bytes that a node reads and writes.
double BytesMoved(const Program& program, const ProgramNode& node) {
  size_t bytes = 0;
  for (size_t k = 0; k < node.inputs.size(); ++k) bytes += Reads(node, k) ? program.spec(node.inputs[k]).bytes() : 0;
  for (const TensorSpec& output : node.outputs) bytes += output.bytes();
  return static_cast<double>(bytes);
}

// Simulates the memory of one device through a step, in the order of its nodes. Where the next node would exceed the
// budget, values that are needed later are dropped, those first that cost the least time for the bytes and for how long
// they are free, and computed again just before their next use, as are the values that this needs (an offline form of
// dynamic tensor rematerialization: Kirisame et al., 2021).
//
// Invariants: a repeated node reads the same bytes as the first time. Nodes that read or write more than their operands
// are not repeated, but for random numbers by counters, which are those of the run; nor are nodes behind an update of a
// variable that they read. A value that cannot be computed again stays until no dropped value needs it (CanBring).
//
// Cost: for each drop, a walk over the values that are there.
class StepSimulation {
 public:
  StepSimulation(Plan& plan, int device, size_t budget)
      : plan_(plan),
        nodes_(plan.program.nodes),
        device_(device),
        size_(static_cast<int>(nodes_.size())),
        budget_(budget),
        repeats_(nodes_.size(), 0) {
    FindWriters();
    FindValues();
    FindUses();
    for (const ProgramNode& node : nodes_) time_.push_back(EstimatedTime(plan.program, node));
  }

  // Returns the most bytes in use.
  size_t Run() {
    for (int i = 0; i < size_; ++i) {
      if (nodes_[i].device == device_ && Runs(nodes_[i])) Step(i);
    }
    if (!added_.empty()) Insert();
    return peak_;
  }

 private:
  // The value whose bytes `value` is: views and collectives hand on those of an input. -1 if the device does not hold
  // it in its arena.
  int HeldBy(Value value) const {
    while (true) {
      value = Root(plan_.program, value);
      const ProgramNode& node = nodes_[value.node];
      if (node.op->kind != OpKind::kAllReduce)
        return held_of_[value.node].empty() ? -1 : held_of_[value.node][value.index];
      const int per_rank = static_cast<int>(node.outputs.size() / node.ranks.size());
      value = node.inputs[value.index / per_rank * (per_rank + 1) + 1 + value.index % per_rank];
    }
  }

  void FindWriters() {
    for (int i = 0; i < size_; ++i) {
      for (size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        if (nodes_[i].op->kind == OpKind::kView || !InputArg(nodes_[i], static_cast<int>(k)).ref) continue;
        writers_[Root(plan_.program, nodes_[i].inputs[k]).node].push_back(i);
      }
    }
  }

  void FindValues() {
    held_of_.resize(nodes_.size());
    repeatable_.assign(nodes_.size(), 0);
    updated_.assign(nodes_.size(), size_);
    size_t largest = 0;
    for (int i = 0; i < size_; ++i) {
      const ProgramNode& node = nodes_[i];
      if (node.device != device_) continue;
      if (node.op->kind != OpKind::kKernel && node.op->kind != OpKind::kPlaceholder) continue;
      repeatable_[i] = IsRepeatable(node) ? 1 : 0;
      updated_[i] = FindUpdate(i);
      for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
        held_of_[i].push_back(-1);
        if (node.op->output_arg(k).ref) continue;
        held_of_[i].back() = static_cast<int>(held_.size());
        const size_t bytes = node.outputs[k].bytes();
        largest = std::max(largest, bytes);
        held_.push_back({.original = {i, k}, .now = {i, k}, .bytes = bytes});
        if (node.op->kind != OpKind::kPlaceholder) continue;
        held_.back().there = true;
        live_ += bytes;
      }
    }
    for (HeldValue& held : held_) {
      held.droppable = repeatable_[held.original.node] && held.bytes >= std::max<size_t>(1, largest / kWorthDropping);
    }
  }

  // The first node behind node i that writes a variable that node i reads.
  int FindUpdate(int i) const {
    int first = size_;
    for (const Value& input : nodes_[i].inputs) {
      const auto found = writers_.find(Root(plan_.program, input).node);
      if (found == writers_.end()) continue;
      const auto next = absl::c_upper_bound(found->second, i);
      if (next != found->second.end()) first = std::min(first, *next);
    }
    return first;
  }

  // True if the node may run again as long as the variables that it reads are not updated.
  bool IsRepeatable(const ProgramNode& node) const {
    if (node.op->kind != OpKind::kKernel || Updates(node)) return false;
    // Random numbers by counters are the same whenever a run draws them.
    if (node.op->stateful && node.attrs.Find("per_step") == nullptr) return false;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.op->output_arg(static_cast<int>(k)).ref) return false;
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (!Reads(node, k)) continue;
      const int root = Root(plan_.program, node.inputs[k]).node;
      const auto written = writers_.find(root);
      const bool here = written == writers_.end() || absl::c_all_of(written->second, [&](int writer) {
                          return nodes_[writer].op->kind == OpKind::kKernel && nodes_[writer].device == device_;
                        });
      if (nodes_[root].device != device_ || !here) return false;
    }
    return true;
  }

  void FindUses() {
    const auto pin = [&](HeldValue& held) {
      held.uses.push_back(size_);
      held.droppable = false;
    };
    inputs_.resize(nodes_.size());
    for (int i = 0; i < size_; ++i) {
      if (!Runs(nodes_[i])) continue;
      for (size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        const int h = Reads(nodes_[i], k) ? HeldBy(nodes_[i].inputs[k]) : -1;
        if (h < 0 || absl::c_linear_search(inputs_[i], h)) continue;
        inputs_[i].push_back(h);
        if (nodes_[i].device != device_) {
          pin(held_[h]);
        } else {
          held_[h].uses.push_back(i);
          if (nodes_[i].op->kind == OpKind::kAllReduce) held_[h].droppable = false;
        }
      }
    }
    for (const Value& fetch : plan_.program.fetches) {
      if (const int h = HeldBy(fetch); h >= 0) pin(held_[h]);
    }
    for (int h = 0; h < static_cast<int>(held_.size()); ++h) {
      std::vector<int>& uses = held_[h].uses;
      absl::c_sort(uses);
      uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
      if (held_[h].droppable) droppable_.push_back(h);
    }
  }

  // Makes the inputs of node i be there when node `at` runs, and keeps them there.
  void LockInputs(int i, int at) {
    for (int input : inputs_[i]) {
      Bring(input, at);
      ++held_[input].locks;
    }
  }

  void Step(int i) {
    LockInputs(i, i);
    MakeRoom(BytesToAdd(i), i);
    if (std::vector<Value> inputs = Present(nodes_[i], i); inputs != nodes_[i].inputs) reads_[i] = std::move(inputs);
    for (int h : held_of_[i]) {
      if (h >= 0 && held_[h].wanted()) Hold(h, held_[h].original);
    }
    for (int h : inputs_[i]) {
      HeldValue& held = held_[h];
      --held.locks;
      while (held.wanted() && held.next_use() <= i) ++held.next;
      Release(h, i);
    }
    for (int h : kept_) Release(h, i);
  }

  void Hold(int h, Value now) {
    held_[h].there = true;
    held_[h].now = now;
    live_ += held_[h].bytes;
  }

  void Leave(int h) {
    held_[h].there = false;
    live_ -= held_[h].bytes;
  }

  // Frees the value if nothing behind node i needs it.
  void Release(int h, int i) {
    const HeldValue& held = held_[h];
    if (held.there && held.locks == 0 && !held.wanted() && held.until <= i) Leave(h);
  }

  // Bytes of the outputs and the workspace of node i.
  size_t BytesOf(int i) const {
    size_t bytes = plan_.workspace_bytes[i];
    for (const TensorSpec& output : nodes_[i].outputs) bytes += output.bytes();
    return bytes;
  }

  // Those of them that lie beside its inputs the first time that it runs.
  size_t BytesToAdd(int i) const {
    if (nodes_[i].op->kind != OpKind::kKernel) return 0;
    size_t bytes = BytesOf(i);
    if (plan_.in_place[i] == 0) return bytes;
    std::vector<char> taken(nodes_[i].outputs.size(), 0);
    for (const auto& [input, output] : InPlace(nodes_[i])) {
      if (input >= static_cast<int>(nodes_[i].inputs.size()) || output >= static_cast<int>(taken.size())) continue;
      const int h = HeldBy(nodes_[i].inputs[input]);
      if (h < 0 || taken[output] || held_[h].last_use() != i || held_[h].until > i) continue;
      if (plan_.program.spec(nodes_[i].inputs[input]) != nodes_[i].outputs[output]) continue;
      taken[output] = 1;
      bytes -= held_[h].bytes;
    }
    return bytes;
  }

  // Computes the value again before node `at` if it is not there.
  void Bring(int h, int at) {
    if (held_[h].there) return;
    const int i = held_[h].original.node;
    BELFRY_CHECK(repeatable_[i]);
    LockInputs(i, at);
    MakeRoom(BytesOf(i), at);
    ProgramNode node = nodes_[i];
    ++repeats_[i];
    node.name = absl::StrCat(node.name, "/again", repeats_[i] > 1 ? absl::StrCat("_", repeats_[i]) : "");
    node.inputs = Present(node, at);
    plan_.recomputation.flops += FlopsOf(plan_.program, nodes_[i]);
    plan_.recomputation.bytes += BytesMoved(plan_.program, nodes_[i]);
    ++plan_.recomputation.nodes;
    const int index = Add(std::move(node), at, i);
    for (size_t k = 0; k < held_of_[i].size(); ++k) {
      const int output = held_of_[i][k];
      if (output >= 0 && !held_[output].there && (output == h || held_[output].wanted())) {
        Hold(output, {index, static_cast<int>(k)});
      }
    }
    ++held_[h].locks;
    for (int input : inputs_[i]) {
      --held_[input].locks;
      Release(input, at - 1);
    }
    --held_[h].locks;
  }

  // Drops values until `bytes` more fit into the budget before node `at`, or none is left.
  void MakeRoom(size_t bytes, int at) {
    while (live_ + bytes > budget_ && static_cast<int>(added_.size()) < kMostRepeats * size_) {
      const int h = Cheapest(at);
      if (h < 0) break;
      std::vector<int> needed;
      double time = 0;
      BELFRY_CHECK(CanBring(h, held_[h].next_use(), time, needed));
      for (int other : needed) {
        held_[other].until = std::max(held_[other].until, held_[h].next_use());
        if (!absl::c_linear_search(kept_, other)) kept_.push_back(other);
      }
      Leave(h);
    }
    peak_ = std::max(peak_, live_ + bytes);
  }

  // The value with the least time to compute it again, for its bytes and for how long these are free; -1 if there is
  // none.
  int Cheapest(int at) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    std::vector<int> needed;
    for (int h : droppable_) {
      const HeldValue& held = held_[h];
      if (!held.there || held.locks > 0 || !held.wanted() || held.next_use() <= at) continue;
      const double freed = static_cast<double>(held.bytes) * (held.next_use() - at);
      if (time_[held.original.node] >= least * freed) continue;
      double time = 0;
      if (!CanBring(h, held.next_use(), time, needed) || time >= least * freed) continue;
      least = time / freed;
      best = h;
    }
    return best;
  }

  // True if the value can be computed again before node `at`. `time`: what that takes if no other value is dropped;
  // `needed`: values that must stay until then because they cannot be computed again.
  bool CanBring(int h, int at, double& time, std::vector<int>& needed) {
    ++walk_;
    seen_.resize(held_.size(), 0);
    return CanRepeat(held_[h].original.node, at, time, needed);
  }

  bool CanRepeat(int i, int at, double& time, std::vector<int>& needed) {
    if (!repeatable_[i] || updated_[i] < at) return false;
    time += time_[i];
    for (int input : inputs_[i]) {
      if (std::exchange(seen_[input], walk_) == walk_) continue;
      const HeldValue& held = held_[input];
      // It stays, or was dropped and can be computed again for a use of its own.
      if (held.last_use() >= at) continue;
      if (!repeatable_[held.original.node]) {
        if (!held.there) return false;
        needed.push_back(input);
      } else if (!CanRepeat(held.original.node, at, time, needed)) {
        return false;
      }
    }
    return true;
  }

  int Add(ProgramNode node, int before, int like) {
    added_.push_back({before, like, std::move(node)});
    return size_ + static_cast<int>(added_.size()) - 1;
  }

  // The inputs of a node that is about to run at `at`, with the present outputs of values that were computed again.
  std::vector<Value> Present(const ProgramNode& node, int at) {
    std::vector<Value> inputs = node.inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (Reads(node, k)) inputs[k] = Present(inputs[k], at);
    }
    return inputs;
  }

  // `value` itself, or the output of an added node with the same bytes; of a view, a view of that.
  Value Present(Value value, int at) {
    const ProgramNode& node = nodes_[value.node];
    if (node.op->kind != OpKind::kView) {
      const bool own = !held_of_[value.node].empty() && held_of_[value.node][value.index] >= 0;
      return own ? held_[held_of_[value.node][value.index]].now : value;
    }
    const Value of = Present(node.inputs[0], at);
    if (of == node.inputs[0]) return value;
    const auto [found, inserted] = views_.try_emplace({value.node, of}, -1);
    if (inserted) {
      ProgramNode view = node;
      view.name = absl::StrCat(node.name, "/again", views_.size());
      view.inputs[0] = of;
      found->second = Add(std::move(view), at, value.node);
    }
    return {found->second, value.index};
  }

  // Puts the added nodes into the program, each before the node for which it is there.
  void Insert() {
    std::vector<int> place(nodes_.size() + added_.size());
    std::vector<ProgramNode> nodes;
    std::vector<size_t> workspace;
    std::vector<char> in_place;
    std::vector<absl::string_view> engines;
    size_t next = 0;
    const auto put = [&](ProgramNode& node, int index, int like) {
      place[index] = static_cast<int>(nodes.size());
      nodes.push_back(std::move(node));
      workspace.push_back(plan_.workspace_bytes[like]);
      in_place.push_back(plan_.in_place[like]);
      engines.push_back(plan_.engines[like]);
    };
    for (auto& [node, inputs] : reads_) nodes_[node].inputs = std::move(inputs);
    for (int i = 0; i < size_; ++i) {
      for (; next < added_.size() && added_[next].before <= i; ++next) {
        put(added_[next].node, size_ + static_cast<int>(next), added_[next].like);
      }
      put(nodes_[i], i, i);
    }
    for (ProgramNode& node : nodes) {
      for (Value& input : node.inputs) input.node = place[input.node];
      for (int& control : node.control_inputs) control = place[control];
    }
    for (Value& value : plan_.program.feeds) value.node = place[value.node];
    for (Value& value : plan_.program.fetches) value.node = place[value.node];
    for (int& target : plan_.program.targets) target = place[target];
    nodes_ = std::move(nodes);
    plan_.workspace_bytes = std::move(workspace);
    plan_.in_place = std::move(in_place);
    plan_.engines = std::move(engines);
  }

  struct Added {
    int before;  // the node of the program before which it runs
    int like;    // the node that it repeats
    ProgramNode node;
  };

  Plan& plan_;
  std::vector<ProgramNode>& nodes_;
  const int device_, size_;
  const size_t budget_;
  size_t live_ = 0, peak_ = 0;  // bytes in use
  std::vector<HeldValue> held_;
  std::vector<std::vector<int>> held_of_;      // by node, output: of held_, or -1
  std::vector<char> repeatable_;               // by node
  std::vector<int> updated_;                   // by node: FindUpdate
  HashMap<int, std::vector<int>> writers_;     // by variable, ascending
  std::vector<std::vector<int>> inputs_;       // by node: what it reads of held_
  std::vector<double> time_;                   // by node
  HashMap<int, std::vector<Value>> reads_;     // inputs of nodes that read values computed again
  HashMap<std::pair<int, Value>, int> views_;  // added, by view and what it is to show
  std::vector<int> droppable_;                 // indices of held_
  std::vector<int> kept_;                      // values with `until`
  std::vector<int> repeats_;                   // by node
  std::vector<Added> added_;                   // in order
  std::vector<int> seen_;                      // by value: the last walk of CanBring that met it
  int walk_ = 0;
};

}  // namespace

double EstimatedTime(const Program& program, const ProgramNode& node) {
  if (node.op->kind != OpKind::kKernel) return 0;
  return BytesMoved(program, node) + FlopsOf(program, node) / kFlopsPerByte;
}

size_t RecomputeWithin(Plan& plan, int device, size_t budget) { return StepSimulation(plan, device, budget).Run(); }

}  // namespace belfry
