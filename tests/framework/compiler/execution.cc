#include "tests/framework/compiler/execution.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"

namespace belfry::execution {
namespace {

using Kind = Instruction::Kind;
using Space = std::pair<int, int>;  // {device, -1}: its arena; {-1, node}: a variable

template <class T>
int Count(const T& list) {
  return static_cast<int>(list.size());
}

uint64_t Mix(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15;
  hash ^= hash >> 29;
  hash *= 0xBF58476D1CE4E5B9;
  return hash ^ hash >> 32;
}
uint64_t Mix(uint64_t hash, absl::string_view text) {
  for (const char c : text) hash = Mix(hash, static_cast<uint64_t>(static_cast<unsigned char>(c)));
  return hash;
}

// Bytes of a memory. Empty and of no space: nowhere.
struct Bytes {
  Space space{-1, -1};
  size_t begin = 0, end = 0;
};

Bytes BytesOf(const Plan& plan, Value value) {
  const Storage& storage = plan.memory.outputs[value.node][value.index];
  const size_t end = storage.offset + plan.program.spec(value).bytes();
  if (storage.kind == Storage::Kind::kArena) {
    return {{plan.program.nodes[storage.node].device, -1}, storage.offset, end};
  }
  if (storage.kind == Storage::Kind::kVariable) return {{-1, storage.node}, storage.offset, end};
  return {};
}
Bytes WorkspaceOf(const Plan& plan, int node) {
  const size_t begin = plan.memory.workspace_offset[node], size = plan.workspace_bytes[node];
  return size == 0 ? Bytes{} : Bytes{{plan.program.nodes[node].device, -1}, begin, begin + size};
}

bool IsRead(const ProgramNode& node, int input) {
  const ArgDef& arg = InputArg(node, input);
  return !arg.shape_only && !arg.overwrites;
}
bool IsOwnOutput(const ProgramNode& node, int output) {
  return node.op->kind != OpKind::kKernel || !node.body.empty() || !node.op->output_arg(output).ref;
}

// True if `holds` is true of all nodes that the node depends on.
template <class Predicate>
bool AllBefore(const ProgramNode& node, const Predicate& holds) {
  return absl::c_all_of(node.inputs, [&](const Value& input) { return holds(input.node); }) &&
         absl::c_all_of(node.control_inputs, holds);
}

// The values that the bytes of a memory hold.
class Memory {
 public:
  // The bytes are those of a value, whose first one is at `first`, or theirs.
  void Write(const Bytes& bytes, uint64_t value, std::optional<size_t> first = std::nullopt) {
    if (bytes.begin == bytes.end) return;
    Parts& parts = spaces_[bytes.space];
    Split(parts, bytes.begin);
    Split(parts, bytes.end);
    parts.erase(parts.lower_bound(bytes.begin), parts.lower_bound(bytes.end));
    parts[bytes.begin] = {bytes.end, value, first.value_or(bytes.begin)};
  }
  // A hash that is `value` where the bytes are that value.
  uint64_t Read(const Bytes& bytes) {
    if (bytes.begin == bytes.end) return 0;
    Parts& parts = spaces_[bytes.space];
    std::vector<std::pair<size_t, Part>> pieces;  // with where they begin
    size_t at = bytes.begin;
    auto next = parts.upper_bound(at);
    if (next != parts.begin() && std::prev(next)->second.end > at) --next;
    while (at < bytes.end) {
      Part piece{bytes.end, kUnwritten, bytes.begin};
      if (next != parts.end() && next->first <= at) {
        piece = next++->second;
        piece.end = std::min(piece.end, bytes.end);
      } else if (next != parts.end()) {
        piece.end = std::min(next->first, bytes.end);
      }
      Part* const last = pieces.empty() ? nullptr : &pieces.back().second;
      if (last != nullptr && last->value == piece.value && last->first == piece.first) {
        last->end = piece.end;
      } else {
        pieces.push_back({at, piece});
      }
      at = piece.end;
    }
    if (pieces.size() == 1 && pieces[0].second.first == bytes.begin) return pieces[0].second.value;
    uint64_t hash = 2;
    for (const auto& [begin, piece] : pieces)
      hash = AddPiece(hash, piece.value, begin - piece.first, piece.end - begin);
    return hash;
  }
  // True if all of the bytes are those of the value, whose first one is at 0.
  bool AreAll(const Bytes& bytes, uint64_t value) {
    const bool whole = bytes.begin == 0;
    return Read(bytes) == (whole ? value : AddPiece(2, value, bytes.begin, bytes.end - bytes.begin));
  }

 private:
  struct Part {
    size_t end;
    uint64_t value;
    size_t first;
  };
  using Parts = std::map<size_t, Part>;
  static constexpr uint64_t kUnwritten = 3;

  static uint64_t AddPiece(uint64_t hash, uint64_t value, size_t begin, size_t size) {
    return Mix(Mix(Mix(hash, value), begin), size);
  }
  static void Split(Parts& parts, size_t at) {
    auto after = parts.upper_bound(at);
    if (after == parts.begin()) return;
    const auto before = std::prev(after);
    if (before->first == at || before->second.end <= at) return;
    Part rest = before->second;
    before->second.end = at;
    parts.emplace_hint(after, at, rest);
  }

  std::map<Space, Parts> spaces_;
};

// The kernels of a plan, between whose beginning and end others may run.
class Kernels {
 public:
  Kernels(const Plan& plan, const std::vector<uint64_t>& meanings)
      : plan_(plan), nodes_(plan.program.nodes), meanings_(meanings), seen_(nodes_.size(), 0) {
    for (int i = 0; i < Count(nodes_); ++i) {
      const bool source = nodes_[i].op->kind == OpKind::kPlaceholder || nodes_[i].op->kind == OpKind::kVariable;
      if (source) memory_.Write(BytesOf(plan, {i, 0}), meanings[i]);
      if (nodes_[i].op->kind == OpKind::kAllReduce) ++missing_[nodes_[i].collective];
    }
  }

  void Begin(int node) {
    const ProgramNode& of = nodes_[node];
    std::vector<uint64_t>& inputs = running_[node];
    for (int k = 0; k < Count(of.inputs); ++k) {
      inputs.push_back(IsRead(of, k) ? Read(of.inputs[k]) : 0);
      seen_[node] = Mix(seen_[node], inputs.back());
    }
    seen_[node] = Mix(seen_[node], 1);  // once more, if it runs twice
    if (of.op->kind == OpKind::kAllReduce) {
      --missing_[of.collective];
      const size_t values = of.outputs.size() / of.ranks.size();
      for (size_t r = 0; r < of.ranks.size(); ++r) {
        const auto first = inputs.begin() + static_cast<ptrdiff_t>(r * (values + 1));
        met_[of.collective].insert({of.ranks[r], {first, first + static_cast<ptrdiff_t>(values + 1)}});
      }
    }
    memory_.Write(WorkspaceOf(plan_, node), Busy(node, kWorkspace), 0);
    for (const auto& [bytes, number] : Written(node)) memory_.Write(bytes, Busy(node, number), 0);
  }
  // False for a collective that others have not come to yet.
  bool CanEnd(int node) {
    return nodes_[node].op->kind != OpKind::kAllReduce || missing_[nodes_[node].collective] == 0;
  }
  // False if something else has written its memory.
  bool End(int node) {
    const ProgramNode& of = nodes_[node];
    const std::vector<uint64_t>& inputs = running_[node];
    const auto busy = [&](const Bytes& bytes, int number) {
      return bytes.begin == bytes.end || memory_.AreAll(bytes, Busy(node, number));
    };
    const auto written = Written(node);
    const bool own = absl::c_all_of(written, [&](const auto& place) { return busy(place.first, place.second); });
    if (!own || !busy(WorkspaceOf(plan_, node), kWorkspace)) return false;
    for (int k = 0; k < Count(of.inputs); ++k) {
      if (!IsRead(of, k) || Read(of.inputs[k]) == inputs[k]) continue;
      const auto over = [&](int number) { return busy(BytesOf(plan_, of.inputs[k]), number); };
      if (!absl::c_any_of(WrittenOver(node, k), over)) return false;
    }
    for (const auto& [bytes, number] : written) memory_.Write(bytes, Result(node, number));
    running_.erase(node);
    return true;
  }

  Seen Finish() {
    for (const Value& fetch : plan_.program.fetches) seen_.push_back(Read(fetch));
    for (int i = 0; i < Count(nodes_); ++i) {
      if (nodes_[i].op->kind == OpKind::kVariable) seen_.push_back(Read({i, 0}));
    }
    return seen_;
  }

 private:
  // The bytes of a running node's workspace, and of its outputs, by Written's number.
  static constexpr int kWorkspace = -1000;
  static uint64_t Busy(int node, int number) { return Mix(Mix(4, static_cast<uint64_t>(node)), number); }
  uint64_t Read(Value value) {
    const Storage& storage = plan_.memory.outputs[value.node][value.index];
    if (storage.kind == Storage::Kind::kConstant) return Mix(meanings_[storage.node], storage.offset);
    return memory_.Read(BytesOf(plan_, value));
  }
  // The outputs of the node, with the number of the output, or -1 - k for a variable that is input k.
  std::vector<std::pair<Bytes, int>> Written(int node) const {
    std::vector<std::pair<Bytes, int>> written;
    const ProgramNode& of = nodes_[node];
    for (int k = 0; k < Count(of.inputs); ++k) {
      if (InputArg(of, k).ref) written.push_back({BytesOf(plan_, of.inputs[k]), -1 - k});
    }
    const bool collective = of.op->kind == OpKind::kAllReduce;  // works where its inputs are
    const int values = collective ? Count(of.outputs) / Count(of.ranks) : 0;
    for (int k = 0; k < Count(of.outputs); ++k) {
      if (!IsOwnOutput(of, k)) continue;
      const Value place = collective ? of.inputs[k / values * (values + 1) + 1 + k % values] : Value{node, k};
      written.push_back({BytesOf(plan_, place), k});
    }
    return written;
  }
  // The numbers of what the node may write where it reads this input.
  std::vector<int> WrittenOver(int node, int input) const {
    const ProgramNode& of = nodes_[node];
    if (InputArg(of, input).ref) return {-1 - input};
    if (of.op->kind == OpKind::kAllReduce) {
      const int values = Count(of.outputs) / Count(of.ranks);
      const int rank = input / (values + 1), k = input % (values + 1);
      return k == 0 ? std::vector<int>() : std::vector<int>{rank * values + k - 1};
    }
    std::vector<int> numbers;
    for (const auto& [from, to] : plan_.in_place[node] != 0 ? InPlace(of) : std::vector<std::pair<int, int>>()) {
      if (from == input && to < Count(of.outputs)) numbers.push_back(to);
    }
    return numbers;
  }
  uint64_t Result(int node, int number) {
    const ProgramNode& of = nodes_[node];
    uint64_t hash = meanings_[node];
    if (of.op->kind != OpKind::kAllReduce) {
      for (const uint64_t input : running_[node]) hash = Mix(hash, input);
      return Mix(hash, static_cast<uint64_t>(number) + 1000);
    }
    const size_t values = of.outputs.size() / of.ranks.size();
    const size_t rank = static_cast<size_t>(number) / values, k = static_cast<size_t>(number) % values;
    const std::string& reduction = of.attrs.String("reduction");
    const CollectiveGroup& group = plan_.program.collectives[of.collective];
    hash = Mix(Mix(Mix(hash, group.name), static_cast<uint64_t>(group.size)), k);
    if (reduction == "reduce_scatter" || reduction == "all_gather") hash = Mix(hash, of.ranks[rank]);
    for (const auto& [other, inputs] : met_[of.collective]) {
      if (reduction == "broadcast" && other != 0) continue;
      hash = Mix(hash, other);
      if (reduction == "mean" || reduction == "reduce_scatter") hash = Mix(hash, inputs[0]);
      hash = Mix(hash, inputs[k + 1]);
    }
    return hash;
  }

  const Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  const std::vector<uint64_t>& meanings_;
  Memory memory_;
  std::map<int, std::vector<uint64_t>> running_;                      // by node: what it has read
  std::map<int, int> missing_;                                        // by collective: the nodes that have not come
  std::map<int, std::multimap<int64_t, std::vector<uint64_t>>> met_;  // by collective: the operands, by rank
  Seen seen_;
};

// `plan` with memory of its own for each output.
Plan WithoutSharing(const Plan& plan) {
  Plan apart = plan;
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  size_t end = 0;
  const auto fresh = [&](size_t bytes) { return std::exchange(end, end + bytes); };
  for (int i = 0; i < Count(nodes); ++i) {
    for (int k = 0; k < Count(nodes[i].outputs); ++k) {
      Storage& storage = apart.memory.outputs[i][k];
      if (storage.kind != Storage::Kind::kArena) continue;
      std::optional<Value> on;  // the value whose memory it has
      if (nodes[i].op->kind == OpKind::kView) on = nodes[i].inputs[0];
      if (nodes[i].op->kind == OpKind::kAllReduce) {
        const int values = Count(nodes[i].outputs) / Count(nodes[i].ranks);
        on = nodes[i].inputs[k / values * (values + 1) + 1 + k % values];
      }
      if (!on.has_value()) {
        storage.offset = fresh(nodes[i].outputs[k].bytes());
      } else {
        storage.offset += apart.memory.outputs[on->node][on->index].offset;
        storage.offset -= plan.memory.outputs[on->node][on->index].offset;
      }
    }
    apart.memory.workspace_offset[i] = fresh(plan.workspace_bytes[i]);
  }
  return apart;
}

// The order of a plan's nodes: which ones are over before each begins.
class NodeOrder {
 public:
  explicit NodeOrder(const Plan& plan) : before_(plan.program.nodes.size()) {
    using Nodes = std::vector<bool>;
    const size_t count = plan.program.nodes.size();
    std::vector<Nodes> streams(plan.streams.size(), Nodes(count)), events(plan.events);
    std::vector<size_t> next(plan.streams.size(), 0);
    std::map<int, std::set<int>> missing;
    for (int i = 0; i < Count(plan.program.nodes); ++i) {
      if (plan.program.nodes[i].op->kind == OpKind::kAllReduce) missing[plan.program.nodes[i].collective].insert(i);
    }
    const auto advance = [&](size_t s) {
      if (next[s] == plan.streams[s].instructions.size()) return false;
      const Instruction& at = plan.streams[s].instructions[next[s]];
      if (at.kind == Kind::kWait) {
        if (events[at.index].empty()) return false;
        for (size_t i = 0; i < count; ++i) streams[s][i] = streams[s][i] || events[at.index][i];
      } else if (at.kind == Kind::kRecord) {
        events[at.index] = streams[s];
      } else {
        if (at.kind == Kind::kCollective) {
          std::set<int>& others = missing[plan.program.nodes[at.index].collective];
          others.erase(at.index);
          if (!others.empty()) return false;
        }
        before_[at.index] = streams[s];
        streams[s][at.index] = true;
      }
      ++next[s];
      return true;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < streams.size(); ++s) {
        while (advance(s)) moved = true;
      }
    }
    for (size_t s = 0; s < streams.size(); ++s) complete_ &= next[s] == plan.streams[s].instructions.size();
  }

  // True if all streams reach their end.
  bool complete() const { return complete_; }
  bool Has(int first, int second) const { return !before_[second].empty() && before_[second][first]; }

 private:
  std::vector<std::vector<bool>> before_;  // by node; empty if it does not run
  bool complete_ = true;
};

}  // namespace

uint64_t MeaningOf(const ProgramNode& node) {
  uint64_t hash = Mix(1, node.op->name);
  const bool source = node.op->kind == OpKind::kPlaceholder || node.op->kind == OpKind::kVariable;
  if (source) return Mix(hash, node.name);
  if (node.op->kind == OpKind::kAllReduce) return Mix(hash, node.attrs.String("reduction"));
  hash = Mix(hash, AttrsKey(node.attrs));
  for (const ProgramNode& member : node.body) {
    hash = Mix(hash, MeaningOf(member));
    for (const Value& input : member.inputs) hash = Mix(Mix(hash, input.node + 1), input.index + 1);
  }
  for (const int result : node.results) hash = Mix(hash, result + 1);
  return hash;
}

Seen RunProgram(const Plan& plan, const std::vector<uint64_t>& meanings) {
  const Plan apart = WithoutSharing(plan);
  Kernels kernels(apart, meanings);
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  std::vector<bool> done(nodes.size());
  const auto is_done = [&](int node) { return static_cast<bool>(done[node]); };
  const auto ready = [&](int node) { return AllBefore(nodes[node], is_done); };
  // A collective waits for the last of its nodes, and others for it.
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < Count(nodes); ++i) {
      if (done[i]) continue;
      std::vector<int> together = {i};
      for (int other = 0; nodes[i].op->kind == OpKind::kAllReduce && other < Count(nodes); ++other) {
        const bool meets =
            nodes[other].op->kind == OpKind::kAllReduce && nodes[other].collective == nodes[i].collective;
        if (meets && other != i) together.push_back(other);
      }
      if (!absl::c_all_of(together, ready)) continue;
      for (const int node : together) {
        if (Runs(nodes[node])) kernels.Begin(node);
      }
      for (const int node : together) {
        if (Runs(nodes[node])) kernels.End(node);
        done[node] = moved = true;
      }
    }
  }
  return kernels.Finish();
}

std::optional<Seen> RunStreams(const Plan& plan, const std::vector<uint64_t>& meanings, uint32_t seed) {
  Kernels kernels(plan, meanings);
  std::mt19937 random(seed);
  std::vector<size_t> next(plan.streams.size(), 0);
  std::vector<bool> running(plan.streams.size()), recorded(plan.events);
  while (true) {
    std::vector<int> ready;
    bool done = true;
    for (int s = 0; s < Count(next); ++s) {
      if (next[s] == plan.streams[s].instructions.size()) continue;
      done = false;
      const Instruction& at = plan.streams[s].instructions[next[s]];
      if (at.kind == Kind::kWait && !recorded[at.index]) continue;
      if (running[s] && !kernels.CanEnd(at.index)) continue;
      ready.push_back(s);
    }
    if (done) return kernels.Finish();
    if (ready.empty()) return std::nullopt;
    const int s = ready[random() % ready.size()];
    const Instruction& at = plan.streams[s].instructions[next[s]];
    if (at.kind == Kind::kRecord) recorded[at.index] = true;
    if (at.kind == Kind::kRun || at.kind == Kind::kCollective) {
      running[s] = !running[s];
      if (running[s]) {
        kernels.Begin(at.index);
        continue;
      }
      if (!kernels.End(at.index)) return std::nullopt;
    }
    ++next[s];
  }
}

bool OrdersAllAccesses(const Plan& plan) {
  struct Access {
    size_t begin, end;
    int node;
    bool write;
  };
  const NodeOrder order(plan);
  if (!order.complete()) return false;
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  std::map<Space, std::vector<Access>> spaces;
  bool within = true;
  const auto access = [&](const Bytes& bytes, int node, bool write) {
    if (bytes.space == Space{-1, -1} || bytes.begin == bytes.end) return;
    const auto [device, variable] = bytes.space;
    within &= bytes.end <= (device >= 0 ? plan.memory.arena_bytes[device] : nodes[variable].outputs[0].bytes());
    spaces[bytes.space].push_back({bytes.begin, bytes.end, node, write});
  };
  for (int i = 0; i < Count(nodes); ++i) {
    if (!Runs(nodes[i])) continue;
    for (int k = 0; k < Count(nodes[i].inputs); ++k) {
      if (IsRead(nodes[i], k)) access(BytesOf(plan, nodes[i].inputs[k]), i, false);
      if (InputArg(nodes[i], k).ref) access(BytesOf(plan, nodes[i].inputs[k]), i, true);
    }
    for (int k = 0; k < Count(nodes[i].outputs); ++k) {
      if (IsOwnOutput(nodes[i], k)) access(BytesOf(plan, {i, k}), i, true);
    }
    access(WorkspaceOf(plan, i), i, true);
  }
  if (!within) return false;
  for (auto& [space, accesses] : spaces) {
    std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) { return a.begin < b.begin; });
    for (size_t a = 0; a < accesses.size(); ++a) {
      for (size_t b = a + 1; b < accesses.size() && accesses[b].begin < accesses[a].end; ++b) {
        const int first = accesses[a].node, second = accesses[b].node;
        if (first == second || !(accesses[a].write || accesses[b].write)) continue;
        if (!order.Has(first, second) && !order.Has(second, first)) return false;
      }
    }
  }
  return true;
}

bool OrdersDependences(const Plan& plan) {
  const NodeOrder order(plan);
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  for (int i = 0; i < Count(nodes); ++i) {
    const std::function<bool(int)> over = [&](int node) {
      return Runs(nodes[node]) ? order.Has(node, i) : AllBefore(nodes[node], over);
    };
    if (Runs(nodes[i]) && !AllBefore(nodes[i], over)) return false;
  }
  return true;
}

bool OrdersAsMuch(const Plan& plan, const Plan& than) {
  const NodeOrder order(plan), other(than);
  const int count = Count(than.program.nodes);
  for (int i = 0; i < count * count; ++i) {
    if (other.Has(i / count, i % count) && !order.Has(i / count, i % count)) return false;
  }
  return true;
}

}  // namespace belfry::execution
