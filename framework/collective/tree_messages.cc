#include <algorithm>
#include <utility>

#include "framework/collective/process_tree.h"
#include "framework/collective/world_messages.h"

namespace belfry {
namespace {

class Tree {
 public:
  explicit Tree(const WorldShare& share)
      : share_(share),
        spec_(share.spec),
        towers_(share.towers),
        tree_(share.process, share.towers.processes()),
        own_(share.process),
        end_(tree_.End(own_)) {}

  WorldMessages Make() && {
    const bool broadcasts = spec_.kind == CollectiveKind::kBroadcast;
    messages_.adds_up = tree_.is_root() && !share_.gathers();
    if (tree_.is_root()) messages_.own = {0, spec_.elements};
    if (spec_.averages()) GatherWeights();
    if (share_.gathers()) {
      GatherSlices();
    } else if (!broadcasts) {
      GatherBlocks();
    }
    if (broadcasts && tree_.is_root()) messages_.all = spec_.ranks;
    if (!tree_.children().empty()) messages_.gather.push_back(std::move(from_children_));
    if (!tree_.is_root()) messages_.gather.push_back(std::move(to_parent_));
    SpreadResult();
    return std::move(messages_);
  }

 private:
  void GatherWeights() {
    messages_.weights.resize(spec_.size);
    messages_.total = std::make_unique<double>();
    for (const int child : tree_.children()) {
      from_children_.Receive(child, messages_.WeightsOf(towers_, child, tree_.End(child)));
    }
    if (!tree_.is_root()) to_parent_.Send(tree_.parent(), messages_.WeightsOf(towers_, own_, end_));
  }

  void GatherSlices() {
    for (const int child : tree_.children()) {
      from_children_.Receive(child, share_.Bytes(share_.first(), share_.SlicesOf(child, tree_.End(child))));
    }
    if (!tree_.is_root()) to_parent_.Send(tree_.parent(), share_.Bytes(share_.first(), share_.SlicesOf(own_, end_)));
  }

  // A block is the data of a tower, or the sum of a process. Those of the subtree lie side by side in the scratch
  // memory; towers of this process, whose place there stays free, are sent from where they are.
  void GatherBlocks() {
    const bool sums = share_.sums_processes();
    const size_t bytes =
        static_cast<size_t>(spec_.elements) * (sums ? AccumulatorSize(spec_.dtype) : SizeOf(spec_.dtype));
    const auto first = [&](int process) { return sums ? process : towers_.first[process]; };
    const auto blocks = [&](int begin, int end) {
      return absl::MakeSpan(messages_.scratch.data() + (begin - first(own_)) * bytes, (end - begin) * bytes);
    };
    messages_.scratch.resize((first(end_) - first(own_)) * bytes);
    const auto data_of = [&](int block) {
      const bool in_place = !sums && block < first(own_ + 1);
      return in_place ? static_cast<char*>(spec_.ranks[block - first(own_)].data) : blocks(block, block + 1).data();
    };
    for (const int child : tree_.children()) {
      for (int block = first(child); block < first(child + 1); ++block) {
        from_children_.Receive(child, blocks(block, block + 1));
      }
      from_children_.Receive(child, blocks(first(child + 1), first(tree_.End(child))));
    }
    if (!tree_.is_root()) {
      for (int block = first(own_); block < first(own_ + 1); ++block) {
        to_parent_.Send(tree_.parent(), {data_of(block), bytes});
      }
      to_parent_.Send(tree_.parent(), blocks(first(own_ + 1), first(end_)));
      return;
    }
    for (int block = 0; block < first(end_); ++block) {
      if (sums) {
        messages_.sums.push_back(data_of(block));
      } else {
        messages_.all.push_back({.data = data_of(block), .weight = WeightOf(block)});
      }
    }
  }
  const float* WeightOf(int tower) const { return messages_.weights.empty() ? nullptr : &messages_.weights[tower]; }

  void SpreadResult() {
    const absl::Span<char> result = share_.Bytes(share_.first(), {0, spec_.elements});
    absl::Span<char> total;
    if (messages_.total != nullptr) total = {reinterpret_cast<char*>(messages_.total.get()), sizeof(double)};
    if (!tree_.is_root()) {
      Transfers& from_parent = messages_.spread.emplace_back();
      from_parent.Receive(tree_.parent(), result);
      from_parent.Receive(tree_.parent(), total);
    }
    if (tree_.children().empty()) return;
    Transfers& to_children = messages_.spread.emplace_back();
    for (const int child : tree_.children()) {
      to_children.Send(child, result);
      to_children.Send(child, total);
    }
  }

  const WorldShare& share_;
  const CollectiveSpec& spec_;
  const TowersOfWorld& towers_;
  const ProcessTree tree_;
  const int own_, end_;  // the subtree of this process
  Transfers from_children_, to_parent_;
  WorldMessages messages_;
};

// The most bytes that a process brings to a tree. Where a message of n bytes takes `latency` + n `byte_time`, P
// processes that have n bytes each take
//   2 (P - 1) latency + 2 n byte_time              for direct messages, which a process sends and receives one after
//   the
//                                                  other, and
//   2 log2(P) latency + (P + log2(P)) n byte_time  for the tree, in which n P bytes reach process 0, and n of them come
//                                                  back;
// so the tree is faster while n < 2 latency / byte_time, about, if P is large. That is 12 KB to 55 KB for the links of
// benchmarks/prediction/link.cc. Process 0 also adds up all that it gets, in one thread for each of its devices, at
// about the speed of the fastest of these links, and each process of the tree has to wake up before the next one; both
// leave a margin.
constexpr int64_t kMostBytes = 8192;

}  // namespace

bool IsTreeFaster(const WorldShare& share) {
  const TowersOfWorld& towers = share.towers;
  if (towers.processes() < kFewestInTree) return false;
  int64_t blocks = 1;
  if (!share.sums_processes()) {
    for (int process = 0; process < towers.processes(); ++process) {
      blocks = std::max<int64_t>(blocks, towers.count(process));
    }
  }
  return share.spec.elements <= kMostBytes / blocks / static_cast<int64_t>(SizeOf(share.spec.dtype));
}

WorldMessages TreeMessages(const WorldShare& share) { return Tree(share).Make(); }

}  // namespace belfry
