#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/algorithm/container.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/compiler/plan.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// A range of memory that one or several values share, in use from node `start` to node `end`, inclusive.
struct Block {
  int device = 0;
  size_t bytes = 0;
  int start = std::numeric_limits<int>::max();
  int end = -1;
  size_t offset = 0;
  int group = -1;  // the block that this one is a part of, at `offset` from its beginning
};

// Gives every output and workspace an offset in the arena of its device.
//
// Invariant: two blocks of one device may overlap in memory only if their lifetimes [start, end] do not. Lifetimes are
// node indices. That is enough because every block is first written by its device's compute stream, which runs its
// nodes in index order: collectives, the only nodes on another stream, work in the blocks of their inputs. A reader on
// another stream may run later than its index says, so it does not end a lifetime; the first node of the compute stream
// that is known to run after it does (FreeAfter). What no event orders stays in use to the end of the step (`last_`).
//
// Cost: Pack compares each block with those placed before it on its device, O(n^2) for n blocks; the rest is linear in
// edges, but for a sort. A plan is made once, and has a few thousand blocks.
class MemoryPlanner {
 public:
  MemoryPlanner(Plan& plan, int devices) : plan_(plan), nodes_(plan.program.nodes), block_of_(nodes_.size()) {
    plan_.memory.arena_bytes.assign(devices, 0);
    plan_.memory.sum_bytes.assign(devices, 0);
    last_ = static_cast<int>(nodes_.size());
  }

  void Run() {
    FindStreams();
    FindSyncs();
    MakeBlocks();
    FindLifetimes();
    GroupCollectives();
    ShareInPlace();
    AddWorkspaces();
    Pack();
    Publish();
  }

 private:
  // The value whose bytes `value` is: views, updates of variables and collectives hand on those of an input. Only
  // owners have blocks.
  Value Owner(Value value) const {
    while (true) {
      value = Root(plan_.program, value);
      const ProgramNode& node = nodes_[value.node];
      if (node.op->kind != OpKind::kAllReduce) return value;
      value = node.inputs[CollectiveInput(node, value.index)];
    }
  }

  // Where `value` begins in the memory of its owner, in bytes.
  size_t Within(Value value) const {
    size_t offset = 0;
    while (true) {
      const ProgramNode& node = nodes_[value.node];
      if (node.op->kind == OpKind::kView) {
        offset += static_cast<size_t>(ViewBegin(*node.op, node.attrs)) * SizeOf(node.outputs[0].dtype);
        value = node.inputs[0];
      } else if (node.op->kind == OpKind::kAllReduce) {
        value = node.inputs[CollectiveInput(node, value.index)];
      } else if (!node.op->outputs.empty() && node.op->output_arg(value.index).ref) {
        value = node.inputs[value.index];
      } else {
        return offset;
      }
    }
  }

  // The input whose bytes are output `output` of a collective. Its inputs are, rank by rank, a weight and the values.
  static int CollectiveInput(const ProgramNode& node, int output) {
    const auto ranks = static_cast<int>(node.ranks.size());
    const int per_rank = static_cast<int>(node.outputs.size()) / ranks;
    return output / per_rank * (per_rank + 1) + 1 + output % per_rank;
  }

  void FindStreams() {
    stream_of_.assign(nodes_.size(), -1);
    position_of_.assign(nodes_.size(), -1);
    for (size_t s = 0; s < plan_.streams.size(); ++s) {
      const std::vector<Instruction>& instructions = plan_.streams[s].instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        const Instruction::Kind kind = instructions[i].kind;
        if (kind != Instruction::Kind::kRun && kind != Instruction::Kind::kCollective) continue;
        stream_of_[instructions[i].index] = static_cast<int>(s);
        position_of_[instructions[i].index] = static_cast<int>(i);
      }
    }
  }

  // A block for each output of a kernel or feed. The host writes feeds before the step begins, so theirs start at -1.
  // An output that is a variable's storage has none.
  void MakeBlocks() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const ProgramNode& node = nodes_[i];
      block_of_[i].assign(node.outputs.size(), -1);
      if (node.op->kind != OpKind::kKernel && node.op->kind != OpKind::kPlaceholder) continue;
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.op->output_arg(static_cast<int>(k)).ref) continue;
        block_of_[i][k] = static_cast<int>(blocks_.size());
        const int start = node.op->kind == OpKind::kPlaceholder ? -1 : static_cast<int>(i);
        blocks_.push_back({.device = node.device,
                           .bytes = AlignUp(node.outputs[k].bytes()),
                           .start = start,
                           .end = static_cast<int>(i)});
        plan_.memory.sum_bytes[node.device] += blocks_.back().bytes;
      }
    }
  }

  int BlockOf(Value value) const {
    const Value owner = Owner(value);
    return block_of_[owner.node][owner.index];
  }

  // The node of the owner's stream that is the first to run when `user`, on another stream, is done with the memory: it
  // waits for an event recorded behind the user. Waits between devices are not followed, so what another device reads
  // stays in use to the end of the step.
  int FreeAfter(int owner_stream, int user) const {
    if (plan_.streams[stream_of_[user]].device != plan_.streams[owner_stream].device) return last_;
    const std::vector<Sync>& syncs = syncs_[stream_of_[user]];
    const auto next = std::upper_bound(syncs.begin(), syncs.end(), position_of_[user],
                                       [](int position, const Sync& sync) { return position < sync.recorded; });
    return next == syncs.end() ? last_ : next->node;
  }

  // Collects, for each stream, where the other streams of its device wait for it. A wait holds for all that follows on
  // the waiting stream, so only the first node behind it matters; and a wait for a later event implies those for
  // earlier ones, so each entry takes the earliest node of all that come after it (the last loop).
  void FindSyncs() {
    struct Where {
      int stream, position;
    };
    std::vector<Where> recorded(plan_.events);
    for (size_t s = 0; s < plan_.streams.size(); ++s) {
      const std::vector<Instruction>& instructions = plan_.streams[s].instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        if (instructions[i].kind != Instruction::Kind::kRecord) continue;
        recorded[instructions[i].index] = {static_cast<int>(s), static_cast<int>(i)};
      }
    }
    syncs_.resize(plan_.streams.size());
    for (const StreamProgram& stream : plan_.streams) {
      std::vector<Where> waited;
      for (const Instruction& instruction : stream.instructions) {
        if (instruction.kind == Instruction::Kind::kWait) waited.push_back(recorded[instruction.index]);
        if (instruction.kind != Instruction::Kind::kRun) continue;
        for (const Where& where : waited) {
          const bool same_device = plan_.streams[where.stream].device == stream.device;
          if (same_device) syncs_[where.stream].push_back({where.position, instruction.index});
        }
        waited.clear();
      }
    }
    for (std::vector<Sync>& syncs : syncs_) {
      std::sort(syncs.begin(), syncs.end(), [](const Sync& a, const Sync& b) { return a.recorded < b.recorded; });
      for (size_t i = syncs.size(); i-- > 1;) syncs[i - 1].node = std::min(syncs[i - 1].node, syncs[i].node);
    }
  }

  void FindLifetimes() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const ProgramNode& node = nodes_[i];
      if (!Runs(node)) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (InputArg(node, static_cast<int>(k)).shape_only) continue;
        const Value owner = Owner(node.inputs[k]);
        const int block = block_of_[owner.node][owner.index];
        if (block < 0) continue;
        Use(block, owner.node, static_cast<int>(i));
      }
    }
    for (const Value& fetch : plan_.program.fetches) {
      if (const int block = BlockOf(fetch); block >= 0) Extend(block, last_);
    }
  }

  // A reader on the owner's stream uses the block until it has run; one on another stream, until its stream is waited
  // for.
  void Use(int block, int owner, int user) {
    const int from = stream_of_[owner], to = stream_of_[user];
    const StreamProgram& stream = plan_.streams[to];
    // A feed is written by the host before the step, and belongs to the compute stream of its device.
    const bool own =
        from < 0 ? stream.kind == StreamKind::kCompute && stream.device == nodes_[owner].device : from == to;
    Extend(block, own ? user : from < 0 ? last_ : FreeAfter(from, user));
  }

  void Extend(int block, int end) { blocks_[block].end = std::max(blocks_[block].end, end); }

  // Makes one block of the values of each rank, side by side in the order of the inputs, so that the collective needs
  // no packing. The group lives as long as any part, and parts do not move on their own. PrepareCollectives has made
  // sure that no input is part of two groups.
  void GroupCollectives() {
    for (const ProgramNode& node : nodes_) {
      if (node.op->kind != OpKind::kAllReduce) continue;
      const auto per_rank = node.outputs.size() / node.ranks.size();
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        if (k % per_rank == 0) blocks_.push_back({.device = node.device});
        const int group = static_cast<int>(blocks_.size()) - 1;
        Block& part = blocks_[BlockOf(node.inputs[CollectiveInput(node, static_cast<int>(k))])];
        BELFRY_CHECK(part.group < 0);
        part.group = group;
        part.offset = blocks_[group].bytes;
        blocks_[group].bytes += part.bytes;
        blocks_[group].start = std::min(blocks_[group].start, part.start);
        blocks_[group].end = std::max(blocks_[group].end, part.end);
        if ((k + 1) % per_rank == 0) blocks_[group].bytes = BucketBytes(plan_.program, node);
      }
    }
  }

  // Puts an output in the place of an input that dies here, where OpDef and kernel allow it. The first pair that fits
  // wins.
  void ShareInPlace() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const ProgramNode& node = nodes_[i];
      if (node.op->kind != OpKind::kKernel || plan_.in_place[i] == 0) continue;
      std::vector<char> shares(node.outputs.size(), 0);
      for (const auto& [input, output] : InPlace(node)) {
        if (shares[output] == 0) shares[output] = TryShare(static_cast<int>(i), input, output) ? 1 : 0;
      }
    }
  }

  // The input's block becomes the output's if the two have the same size and nothing else needs the old bytes: node i
  // is the last to use them (end == i), reads them through this input only, and neither block is a part of a
  // collective's. The output's own block shrinks to 0 bytes and is packed nowhere.
  bool TryShare(int i, int input, int output) {
    const ProgramNode& node = nodes_[i];
    if (input >= static_cast<int>(node.inputs.size()) || output >= static_cast<int>(node.outputs.size())) return false;
    if (plan_.program.spec(node.inputs[input]) != node.outputs[output]) return false;
    const Value owner = Owner(node.inputs[input]);
    const int from = block_of_[owner.node][owner.index], to = block_of_[i][output];
    if (from < 0 || to < 0 || from == to || blocks_[from].end != i || blocks_[from].bytes != blocks_[to].bytes) {
      return false;
    }
    if (blocks_[from].group >= 0 || blocks_[to].group >= 0 || blocks_[from].device != node.device) return false;
    if (Within(node.inputs[input]) != 0) return false;
    int readers = 0;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (!InputArg(node, static_cast<int>(k)).shape_only) readers += BlockOf(node.inputs[k]) == from;
    }
    if (readers != 1 || absl::c_linear_search(block_of_[i], from)) return false;
    blocks_[from].end = blocks_[to].end;
    blocks_[to].bytes = 0;
    block_of_[i][output] = from;
    return true;
  }

  void AddWorkspaces() {
    workspace_.assign(nodes_.size(), -1);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (plan_.workspace_bytes[i] == 0) continue;
      workspace_[i] = static_cast<int>(blocks_.size());
      const int at = static_cast<int>(i);
      blocks_.push_back(
          {.device = nodes_[i].device, .bytes = AlignUp(plan_.workspace_bytes[i]), .start = at, .end = at});
      plan_.memory.sum_bytes[nodes_[i].device] += blocks_.back().bytes;
    }
  }

  // Places blocks from the largest to the smallest, each into the smallest gap that it fits into between blocks whose
  // lifetimes meet its own, else above them. `others` is sorted by offset, so one walk sees the gaps in order; `end` is
  // the top of what has been passed, because overlapping lifetimes may leave taken ranges nested.
  void Pack() {
    std::vector<int> order(blocks_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return blocks_[a].bytes > blocks_[b].bytes; });
    std::vector<std::vector<int>> placed(plan_.memory.arena_bytes.size());  // by device, ascending offsets
    for (int index : order) {
      Block& block = blocks_[index];
      if (block.bytes == 0 || block.group >= 0) continue;
      std::vector<int>& others = placed[block.device];
      size_t end = 0, best = 0, best_gap = std::numeric_limits<size_t>::max();
      for (int other : others) {
        const Block& taken = blocks_[other];
        if (taken.end < block.start || block.end < taken.start) continue;
        if (taken.offset >= end + block.bytes && taken.offset - end < best_gap) {
          best_gap = taken.offset - end;
          best = end;
        }
        end = std::max(end, taken.offset + taken.bytes);
      }
      block.offset = best_gap < std::numeric_limits<size_t>::max() ? best : end;
      others.insert(std::upper_bound(others.begin(), others.end(), index,
                                     [&](int a, int b) { return blocks_[a].offset < blocks_[b].offset; }),
                    index);
      size_t& arena = plan_.memory.arena_bytes[block.device];
      arena = std::max(arena, block.offset + block.bytes);
    }
  }

  size_t OffsetOf(int block) const {
    const Block& b = blocks_[block];
    return b.group < 0 ? b.offset : blocks_[b.group].offset + b.offset;
  }

  void Describe(int node, int output, int block) {
    const Block& of = blocks_[block];
    // A block of 0 bytes was shared in place: the output lives in another one.
    if (of.bytes > 0) plan_.memory.blocks.push_back({of.device, node, output, of.bytes, of.start, of.end});
  }

  void Publish() {
    MemoryPlan& memory = plan_.memory;
    memory.outputs.resize(nodes_.size());
    memory.workspace_offset.assign(nodes_.size(), 0);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (workspace_[i] >= 0) {
        memory.workspace_offset[i] = OffsetOf(workspace_[i]);
        Describe(static_cast<int>(i), -1, workspace_[i]);
      }
      for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
        const Value owner = Owner({static_cast<int>(i), static_cast<int>(k)});
        const int block = block_of_[owner.node][owner.index];
        Storage storage{.node = owner.node, .offset = Within({static_cast<int>(i), static_cast<int>(k)})};
        if (block >= 0) {
          storage.kind = Storage::Kind::kArena;
          storage.offset += OffsetOf(block);
          if (blocks_[block].start == static_cast<int>(i) || nodes_[i].op->kind == OpKind::kPlaceholder) {
            Describe(static_cast<int>(i), static_cast<int>(k), block);
          }
        } else if (nodes_[owner.node].op->kind == OpKind::kVariable) {
          storage.kind = Storage::Kind::kVariable;
        } else if (nodes_[owner.node].op->kind == OpKind::kConst) {
          storage.kind = Storage::Kind::kConstant;
        }
        memory.outputs[i].push_back(storage);
      }
    }
  }

  Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  int last_ = 0;                  // after every node
  std::vector<int> stream_of_;    // by node; -1 if it does not run
  std::vector<int> position_of_;  // by node: of its instruction in the stream
  // By stream, ascending: the position at which an event is recorded, and the first node of another stream of the
  // device that runs behind a wait for it or for a later one.
  struct Sync {
    int recorded, node;
  };
  std::vector<std::vector<Sync>> syncs_;
  std::vector<Block> blocks_;
  std::vector<std::vector<int>> block_of_;  // by node, output: the block that it owns, or -1
  std::vector<int> workspace_;              // by node: a block, or -1
};

}  // namespace

void PlanMemory(Plan& plan, int devices) { MemoryPlanner(plan, devices).Run(); }

}  // namespace belfry
