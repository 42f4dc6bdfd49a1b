#include <algorithm>
#include <cmath>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// Values that are this many times smaller than the largest are kept: computing them again saves nothing.
constexpr size_t kSmall = 256;
// The most nodes that kCheap runs again for one value.
constexpr int kMaxChain = 8;

bool HasBytes(const ProgramNode& node) { return node.op->kind == OpKind::kKernel || node.op->kind == OpKind::kView; }

// Chooses the values of the forward pass on one device that the backward pass computes again, and makes it do so.
//
// Invariant: a repeated node reads the same bytes as the first time. CanRepeat refuses stateful nodes and nodes that
// read a variable which is updated before the end of the backward pass; the inputs of a repeated node are either kept
// or repeated as well. Cost: kCheap runs cheap nodes twice, kSqrt about the whole forward pass.
class Recomputer {
 public:
  Recomputer(Program& program, int device) : program_(program), device_(device), size_(Size(program)) {
    part_.assign(size_, Part::kForward);
    users_.resize(size_);
    for (int i = 0; i < size_; ++i) {
      const ProgramNode& node = program.nodes[i];
      for (const Value& input : node.inputs) {
        if (part_[input.node] != Part::kForward) part_[i] = Part::kAfter;
        if (users_[input.node].empty() || users_[input.node].back() != i) users_[input.node].push_back(i);
      }
      for (int control : node.control_inputs) {
        if (part_[control] != Part::kForward) part_[i] = Part::kAfter;
      }
      if (node.source->phase() == Phase::kBackward) part_[i] = Part::kBackward;
      if (part_[i] == Part::kForward && node.device == device) forward_.push_back(i);
    }
    for (int i : forward_) {
      for (const TensorSpec& output : program.nodes[i].outputs) largest_ = std::max(largest_, output.bytes());
    }
    FindUpdated();
  }

  void ChooseCheap() {
    for (int i : forward_) {
      if (!IsCheap(program_.nodes[i])) continue;
      for (const Value& value : Kept(i)) {
        int nodes = 0;
        if (FromKept(value, BackwardUses(value).front(), nodes)) again_[value] = next_group_++;
      }
    }
  }

  // Segments of about equal bytes, as many as the square root of the number of layers.
  void ChooseSegments() {
    const auto layers =
        std::count_if(forward_.begin(), forward_.end(), [&](int i) { return program_.nodes[i].op->flops != nullptr; });
    const int segments = static_cast<int>(std::lround(std::sqrt(static_cast<double>(layers))));
    if (segments < 2) return;
    const std::vector<int> cuts = Cuts(segments);
    segment_.assign(size_, -1);
    int segment = 0;
    for (int i : forward_) {
      while (segment < static_cast<int>(cuts.size()) && i >= cuts[segment]) ++segment;
      segment_[i] = segment;
    }
    for (int i : forward_) {
      // The backward pass begins with the last segment, so its values are still there.
      if (segment_[i] == static_cast<int>(cuts.size()) || !CanRepeat(program_.nodes[i])) continue;
      for (const Value& value : Kept(i)) {
        if (!LeavesSegment(value)) again_[value] = segment_[i];
      }
    }
  }

  void Rewrite() {
    for (const auto& [value, group] : again_) {
      for (int user : BackwardUses(value)) {
        auto [first, added] = first_user_.try_emplace(group, user);
        if (!added) first->second = std::min(first->second, user);
      }
    }
    // In the order of their use, so that a repeated node that two groups share is there for the first of them.
    std::vector<std::pair<Value, int>> values(again_.begin(), again_.end());
    std::stable_sort(values.begin(), values.end(),
                     [&](const auto& a, const auto& b) { return first_user_.at(a.second) < first_user_.at(b.second); });
    for (const auto& [value, group] : values) {
      const std::vector<int> uses = BackwardUses(value);
      const Value repeated = Repeat(value, group);
      for (int user : uses) {
        for (Value& input : program_.nodes[user].inputs) {
          if (input == value) input = repeated;
        }
      }
    }
  }

 private:
  static int Size(const Program& program) { return static_cast<int>(program.nodes.size()); }

  // kAfter: nodes outside Gradients() that depend on gradients, such as averages and updates.
  enum class Part : uint8_t { kForward, kBackward, kAfter };

  bool IsMine(int i, Part part) const { return i < size_ && part_[i] == part && program_.nodes[i].device == device_; }
  bool IsSmall(Value value) const { return program_.spec(value).bytes() < largest_ / kSmall; }

  // Nodes of the backward pass that read the value's bytes, in order.
  std::vector<int> BackwardUses(Value value) const {
    std::vector<int> uses;
    for (int user : users_[value.node]) {
      if (!IsMine(user, Part::kBackward)) continue;
      const ProgramNode& node = program_.nodes[user];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (!(node.inputs[k] == value) || node.op->input_arg(static_cast<int>(k)).shape_only) continue;
        uses.push_back(user);
        break;
      }
    }
    return uses;
  }

  // Large outputs of a node that the backward pass needs.
  std::vector<Value> Kept(int i) const {
    std::vector<Value> kept;
    for (size_t k = 0; k < program_.nodes[i].outputs.size(); ++k) {
      const Value value{i, static_cast<int>(k)};
      if (!IsSmall(value) && !BackwardUses(value).empty()) kept.push_back(value);
    }
    return kept;
  }

  // True if the value is there when node `at` of the backward pass runs, without being kept for that node.
  bool IsThere(Value value, int at) const {
    const ProgramNode& node = program_.nodes[value.node];
    if (!HasBytes(node) || IsSmall(value)) return true;
    if (!IsMine(value.node, Part::kForward)) return false;
    if (node.op->kind == OpKind::kView && IsThere(node.inputs[0], at)) return true;
    if (again_.contains(value)) return false;
    const std::vector<int> uses = BackwardUses(value);
    return !uses.empty() && uses.back() >= at;
  }

  // True if cheap nodes can compute the value, when node `at` runs, from values that are there.
  bool FromKept(Value value, int at, int& nodes) const {
    const ProgramNode& node = program_.nodes[value.node];
    if (!IsCheap(node) || ++nodes > kMaxChain) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Value& input) { return IsThere(input, at) || FromKept(input, at, nodes); });
  }

  // Positions between forward nodes that the fewest bytes cross, each near the one that divides the bytes evenly.
  std::vector<int> Cuts(int segments) const {
    const size_t count = forward_.size();
    std::vector<double> bytes(count + 1, 0), crossing(count + 1, 0);
    for (size_t n = 0; n < count; ++n) {
      bytes[n + 1] = bytes[n];
      for (size_t k = 0; k < program_.nodes[forward_[n]].outputs.size(); ++k) {
        const Value value{forward_[n], static_cast<int>(k)};
        if (program_.nodes[value.node].op->kind != OpKind::kKernel) continue;
        const auto size = static_cast<double>(program_.spec(value).bytes());
        if (!IsSmall(value) && !BackwardUses(value).empty()) bytes[n + 1] += size;
        for (size_t m = n + 1; m < count && forward_[m] <= LastForwardUse(value); ++m) crossing[m] += size;
      }
    }
    std::vector<int> cuts;
    for (int s = 1; s < segments; ++s) {
      const double low = bytes[count] * (s - 0.5) / segments, high = bytes[count] * (s + 0.5) / segments;
      size_t best = 0;
      for (size_t n = 1; n < count; ++n) {
        if (bytes[n] < low || bytes[n] > high) continue;
        if (best == 0 || crossing[n] < crossing[best]) best = n;
      }
      if (best > 0 && (cuts.empty() || forward_[best] > cuts.back())) cuts.push_back(forward_[best]);
    }
    return cuts;
  }

  int LastForwardUse(Value value) const {
    int last = value.node;
    for (int user : users_[value.node]) {
      const std::vector<Value>& inputs = program_.nodes[user].inputs;
      if (part_[user] == Part::kBackward || std::find(inputs.begin(), inputs.end(), value) == inputs.end()) continue;
      last = std::max(last, user);
    }
    return last;
  }

  bool LeavesSegment(Value value) const {
    return segment_[LastForwardUse(value)] != segment_[value.node] ||
           std::find(program_.fetches.begin(), program_.fetches.end(), value) != program_.fetches.end();
  }

  // Finds variables that are updated before some node of the backward pass: read again, they would have other values.
  void FindUpdated() {
    std::vector<char> leads(size_, 0);  // to the backward pass
    for (int i = size_; i-- > 0;) {
      const ProgramNode& node = program_.nodes[i];
      if (part_[i] != Part::kBackward && !leads[i]) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        leads[node.inputs[k].node] = 1;
        if (node.op->input_arg(static_cast<int>(k)).ref) updated_.insert(Root(program_, node.inputs[k]));
      }
      for (int control : node.control_inputs) leads[control] = 1;
    }
  }
  bool CanRepeat(const ProgramNode& node) const {
    return HasBytes(node) && !node.op->stateful &&
           absl::c_none_of(node.inputs, [&](const Value& input) { return updated_.contains(Root(program_, input)); });
  }
  bool IsCheap(const ProgramNode& node) const { return CanRepeat(node) && node.op->flops == nullptr; }

  // True if the value, an input of a repeated node of the group, is computed again too.
  bool IsRepeated(Value value, int group) const {
    if (!IsMine(value.node, Part::kForward) || !CanRepeat(program_.nodes[value.node]) || IsSmall(value)) return false;
    if (!segment_.empty()) return segment_[value.node] == group && !LeavesSegment(value);
    return !IsThere(value, first_user_.at(group));
  }

  // The value that the node's double computes. Makes the double at the first call.
  Value Repeat(Value value, int group) {
    if (const auto found = doubles_.find(value.node); found != doubles_.end()) return {found->second, value.index};
    ProgramNode node = program_.nodes[value.node];
    node.name = absl::StrCat(node.name, "/again");
    // Not before the backward pass reaches its first user, or it would be kept as long as the original.
    const int user = first_user_.at(group);
    node.rank = program_.nodes[user].rank;
    for (const Value& input : program_.nodes[user].inputs) {
      if (IsMine(input.node, Part::kBackward)) node.control_inputs.push_back(input.node);
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      Value& input = node.inputs[k];
      if (!node.op->input_arg(static_cast<int>(k)).shape_only && IsRepeated(input, group)) input = Repeat(input, group);
    }
    program_.nodes.push_back(std::move(node));
    doubles_[value.node] = Size(program_) - 1;
    return {doubles_[value.node], value.index};
  }

  Program& program_;
  const int device_, size_;
  HashSet<Value> updated_;
  size_t largest_ = 0;
  std::vector<Part> part_;
  std::vector<std::vector<int>> users_;
  std::vector<int> forward_;  // nodes of the device, in order
  std::vector<int> segment_;  // by node; -1: none. Empty: there are no segments

  struct Before {
    bool operator()(const Value& a, const Value& b) const {
      return a.node != b.node ? a.node < b.node : a.index < b.index;
    }
  };
  std::map<Value, int, Before> again_;  // computed again, by group: those that are computed at one time
  std::map<int, int> first_user_;       // by group
  int next_group_ = 0;
  HashMap<int, int> doubles_;  // by node
};

}  // namespace

absl::StatusOr<Recompute> ParseRecompute(absl::string_view name) {
  if (name == "none") return Recompute::kNone;
  if (name == "cheap") return Recompute::kCheap;
  if (name == "sqrt") return Recompute::kSqrt;
  return absl::InvalidArgumentError(
      absl::StrCat("Unknown way to recompute '", name, "'; expected none, cheap or sqrt"));
}

absl::Status RecomputeForward(Program& program, Recompute recompute) {
  if (recompute == Recompute::kNone) return absl::OkStatus();
  std::vector<int> devices;
  for (const ProgramNode& node : program.nodes) devices.push_back(node.device);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (int device : devices) {
    Recomputer recomputer(program, device);
    if (recompute == Recompute::kCheap) {
      recomputer.ChooseCheap();
    } else {
      recomputer.ChooseSegments();
    }
    recomputer.Rewrite();
  }
  return Normalize(program);
}

}  // namespace belfry
