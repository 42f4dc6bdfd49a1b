#include "tests/framework/compiler/plan_checker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// For each stream, how far it has surely come, as one instruction can know.
using Clock = std::vector<int>;

void Join(Clock& clock, const Clock& other) {
  for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

// The position of a node's instruction, and what has surely ended when it begins.
struct Moment {
  int stream = -1, position = -1;
  Clock known;
};

class Player {
 public:
  explicit Player(const Plan& plan)
      : plan_(plan),
        at_(plan.streams.size(), 0),
        clocks_(plan.streams.size(), Clock(plan.streams.size(), 0)),
        events_(plan.events),
        moments_(plan.program.nodes.size()) {}

  // Moments by node; a node without an instruction has stream -1. Returns nullopt if the streams wait for each other
  // forever.
  std::optional<std::vector<Moment>> Play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < at_.size(); ++s) {
        while (Step(static_cast<int>(s))) moved = true;
      }
    }
    for (size_t s = 0; s < at_.size(); ++s) {
      if (at_[s] < static_cast<int>(plan_.streams[s].instructions.size())) return std::nullopt;
    }
    return moments_;
  }

 private:
  const Instruction* Next(int stream) const {
    const std::vector<Instruction>& instructions = plan_.streams[stream].instructions;
    return at_[stream] < static_cast<int>(instructions.size()) ? &instructions[at_[stream]] : nullptr;
  }

  bool Step(int stream) {
    const Instruction* next = Next(stream);
    if (next == nullptr) return false;
    switch (next->kind) {
      case Instruction::Kind::kWait:
        if (events_[next->index].empty()) return false;
        Join(clocks_[stream], events_[next->index]);
        ++at_[stream];
        return true;
      case Instruction::Kind::kRecord:
        events_[next->index] = clocks_[stream];
        ++at_[stream];
        return true;
      case Instruction::Kind::kRun: Execute(stream); return true;
      case Instruction::Kind::kCollective: return Meet(plan_.program.nodes[next->index].attrs.String("group"));
    }
    return false;
  }

  void Execute(int stream) {
    moments_[Next(stream)->index] = {stream, at_[stream], clocks_[stream]};
    clocks_[stream][stream] = ++at_[stream];
  }

  bool Meet(const std::string& group) {
    std::vector<int> streams;
    int64_t ranks = 0, size = 0;
    for (size_t s = 0; s < at_.size(); ++s) {
      const Instruction* next = Next(static_cast<int>(s));
      if (next == nullptr || next->kind != Instruction::Kind::kCollective) continue;
      const ProgramNode& node = plan_.program.nodes[next->index];
      if (node.attrs.String("group") != group) continue;
      streams.push_back(static_cast<int>(s));
      ranks += static_cast<int64_t>(node.ranks.size());
      size = node.attrs.Int("size");
    }
    if (ranks < size) return false;
    Clock all = clocks_[streams[0]];
    for (int stream : streams) Join(all, clocks_[stream]);
    for (int stream : streams) clocks_[stream] = all;
    for (int stream : streams) Execute(stream);
    for (int stream : streams) Join(all, clocks_[stream]);
    for (int stream : streams) clocks_[stream] = all;
    return true;
  }

  const Plan& plan_;
  std::vector<int> at_;        // by stream: the next instruction
  std::vector<Clock> clocks_;  // by stream
  std::vector<Clock> events_;  // empty: not recorded yet
  std::vector<Moment> moments_;
};

// A range of a device's arena and the nodes that use it, from its creation in the step to its last use.
struct Buffer {
  Value value;  // node -1 for a workspace
  std::string name;
  int device = 0;
  size_t begin = 0, end = 0;
  int producer = -1;     // -1: the host, before the step
  std::set<int> users;   // nodes
  bool fetched = false;  // the host reads it after the step
};

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan), nodes_(plan.program.nodes) {}

  std::string Run() {
    auto moments = Player(plan_).Play();
    if (!moments) return "the streams wait for each other\n";
    moments_ = *std::move(moments);
    Collect();
    for (size_t i = 0; i < nodes_.size(); ++i) CheckOrder(static_cast<int>(i));
    for (size_t a = 0; a < buffers_.size(); ++a) {
      const Buffer& x = buffers_[a];
      if (x.end > plan_.memory.arena_bytes[x.device]) Complain(x, "leaves the arena");
      for (size_t b = 0; b < a; ++b) CheckPair(x, buffers_[b]);
    }
    for (size_t d = 0; d < plan_.memory.arena_bytes.size(); ++d) {
      if (plan_.memory.arena_bytes[d] > plan_.memory.sum_bytes[d]) absl::StrAppend(&errors_, "arena above the sum\n");
    }
    return errors_;
  }

 private:
  void Complain(const Buffer& buffer, absl::string_view what) {
    absl::StrAppend(&errors_, buffer.name, " at ", buffer.begin, " on device ", buffer.device, " ", what, "\n");
  }

  // True if `a` has surely ended when `b` begins.
  bool Before(int a, int b) const { return moments_[b].known[moments_[a].stream] > moments_[a].position; }

  // Checks that a node begins after those whose outputs it reads and those that it waits for.
  void CheckOrder(int i) {
    if (moments_[i].stream < 0) return;
    std::vector<int> stack;
    const auto push = [&](int node) {
      for (const Value& input : nodes_[node].inputs) stack.push_back(input.node);
      for (int control : nodes_[node].control_inputs) stack.push_back(control);
    };
    push(i);
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      if (moments_[node].stream < 0) {
        push(node);
      } else if (!Before(node, i)) {
        absl::StrAppend(&errors_, nodes_[i].name, " does not wait for ", nodes_[node].name, "\n");
      }
    }
  }

  // The value whose buffer holds this one: views and collectives pass on their input's.
  Value Source(Value value) const {
    size_t within = 0;
    return Source(value, within);
  }
  // Adds to `within` where it begins there, in bytes.
  Value Source(Value value, size_t& within) const {
    while (true) {
      const ProgramNode& node = nodes_[value.node];
      if (node.op->kind == OpKind::kView) {
        within += static_cast<size_t>(ViewBegin(*node.op, node.attrs)) * SizeOf(node.outputs[0].dtype);
        value = node.inputs[0];
      } else if (node.op->kind == OpKind::kAllReduce) {
        const auto per_rank = node.outputs.size() / node.ranks.size();
        const size_t rank = value.index / per_rank, part = value.index % per_rank;
        value = node.inputs[rank * (per_rank + 1) + 1 + part];
      } else {
        return value;
      }
    }
  }

  void Collect() {
    std::map<std::pair<int, int>, size_t> index;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const int node = static_cast<int>(i);
      if (plan_.workspace_bytes[i] > 0) {
        const size_t begin = plan_.memory.workspace_offset[i];
        buffers_.push_back(
            {Value{}, nodes_[i].name + " workspace", nodes_[i].device, begin, begin + plan_.workspace_bytes[i], node});
      }
      for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
        const Storage& storage = plan_.memory.outputs[i][k];
        const Value value{node, static_cast<int>(k)};
        if (storage.kind != Storage::Kind::kArena || Source(value) != value) continue;
        index[{node, value.index}] = buffers_.size();
        const int producer = moments_[i].stream < 0 ? -1 : node;
        buffers_.push_back({value, absl::StrCat(nodes_[i].name, ":", k), nodes_[i].device, storage.offset,
                            storage.offset + nodes_[i].outputs[k].bytes(), producer});
      }
    }
    const auto buffer = [&](Value value) -> Buffer* {
      size_t within = 0;
      const Value source = Source(value, within);
      const auto found = index.find({source.node, source.index});
      if (found == index.end()) return nullptr;
      Buffer& b = buffers_[found->second];
      if (plan_.memory.outputs[value.node][value.index].offset != b.begin + within) {
        Complain(b, "is elsewhere for a view of it");
      }
      return &b;
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (moments_[i].stream < 0) continue;
      for (size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        if (InputArg(nodes_[i], static_cast<int>(k)).shape_only) continue;
        if (Buffer* b = buffer(nodes_[i].inputs[k])) b->users.insert(static_cast<int>(i));
      }
    }
    for (const Value& fetch : plan_.program.fetches) {
      if (Buffer* b = buffer(fetch)) b->fetched = true;
    }
  }

  // True if nobody uses `first` any more when `second` is written, whatever the timing.
  bool EndsBefore(const Buffer& first, const Buffer& second) const {
    if (first.fetched || second.producer < 0) return false;
    const auto done = [&](int node) {
      return Before(node, second.producer) || (node == second.producer && InPlace(first, second));
    };
    return std::all_of(first.users.begin(), first.users.end(), done) &&
           (first.producer < 0 || (first.producer != second.producer && Before(first.producer, second.producer)));
  }

  // True if the op may write `second` over `first`, which is exactly one of its inputs.
  bool InPlace(const Buffer& first, const Buffer& second) const {
    if (first.begin != second.begin || first.end != second.end || plan_.in_place[second.producer] == 0) return false;
    const ProgramNode& node = nodes_[second.producer];
    const auto reads = [&](int k) {
      return k < static_cast<int>(node.inputs.size()) && !InputArg(node, k).shape_only &&
             Source(node.inputs[k]) == first.value;
    };
    int readers = 0;
    for (size_t k = 0; k < node.inputs.size(); ++k) readers += reads(static_cast<int>(k));
    return readers == 1 && absl::c_any_of(belfry::InPlace(node), [&](const auto& pair) {
             return reads(pair.first) && second.value == Value{second.producer, pair.second};
           });
  }

  void CheckPair(const Buffer& x, const Buffer& y) {
    if (x.device != y.device || x.end <= y.begin || y.end <= x.begin) return;
    if (!EndsBefore(x, y) && !EndsBefore(y, x)) Complain(x, absl::StrCat("shares bytes with ", y.name));
  }

  const Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  std::vector<Moment> moments_;
  std::vector<Buffer> buffers_;
  std::string errors_;
};

}  // namespace

std::string CheckPlan(const Plan& plan) { return Checker(plan).Run(); }

}  // namespace belfry
