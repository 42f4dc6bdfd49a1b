#include <utility>

#include "framework/collective/world_messages.h"

namespace belfry {
namespace {

class Direct {
 public:
  explicit Direct(const WorldShare& share) : share_(share), spec_(share.spec), towers_(share.towers) {}

  WorldMessages Make() && {
    own_ = SliceOf(share_.process);
    messages_.own = own_;
    messages_.adds_up = !share_.gathers();
    if (messages_.adds_up) {
      messages_.gather.emplace_back();
      if (spec_.averages()) GatherWeights();
      if (share_.sums_processes()) {
        GatherSums();
      } else {
        GatherTowers();
      }
    }
    if (!share_.scatters()) SpreadResults();
    return std::move(messages_);
  }

 private:
  ElementRange SliceOf(int process) const {
    if (share_.gathers() || share_.scatters()) return share_.SlicesOf(process, process + 1);
    const int64_t processes = towers_.processes();
    return {spec_.elements * process / processes, spec_.elements * (process + 1) / processes};
  }
  // True if a rank's data counts.
  bool Counts(int64_t rank) const { return spec_.kind != CollectiveKind::kBroadcast || rank == 0; }

  // Calls plan(to, from) for the other processes, neighbours first, so that not all send to the same one at the same
  // time.
  template <class F>
  void ForEachPair(const F& plan) const {
    const int own = share_.process, size = towers_.processes();
    for (int step = 1; step < size; ++step) plan((own + step) % size, (own + size - step) % size);
  }

  void GatherWeights() {
    messages_.weights.resize(spec_.size);
    const auto weights_of = [&](int process) { return messages_.WeightsOf(towers_, process, process + 1); };
    ForEachPair([&](int to, int from) {
      messages_.gather[0].Send(to, weights_of(share_.process));
      messages_.gather[0].Receive(from, weights_of(from));
    });
  }

  // The slices of all towers.
  void GatherTowers() {
    Transfers& gather = messages_.gather[0];
    const auto local = static_cast<int64_t>(spec_.ranks.size());
    const size_t bytes = share_.Bytes(nullptr, {0, own_.size()}).size();
    messages_.scratch.resize(static_cast<size_t>(spec_.size - local) * bytes);
    messages_.all.resize(spec_.size);
    char* free = messages_.scratch.data();
    for (int64_t rank = 0; rank < spec_.size; ++rank) {
      CollectiveRank& one = messages_.all[rank];
      if (spec_.averages()) one.weight = &messages_.weights[rank];
      if (rank >= spec_.first && rank < spec_.first + local) {
        one.data = share_.Bytes(spec_.ranks[rank - spec_.first].data, own_).data();
      } else {
        one.data = std::exchange(free, free + bytes);
      }
    }
    ForEachPair([&](int to, int from) {
      const ElementRange theirs = SliceOf(to);
      for (int64_t i = 0; i < local; ++i) {
        if (Counts(spec_.first + i)) gather.Send(to, share_.Bytes(spec_.ranks[i].data, theirs));
      }
      for (int64_t rank = towers_.first[from]; rank < towers_.first[from + 1]; ++rank) {
        if (Counts(rank)) gather.Receive(from, share_.Bytes(messages_.all[rank].data, {0, own_.size()}));
      }
    });
  }

  // The slices of all processes' sums. The scratch memory has this process's sum, then the slices.
  void GatherSums() {
    Transfers& gather = messages_.gather[0];
    const auto size = static_cast<int64_t>(AccumulatorSize(spec_.dtype));
    const auto bytes = [&](int64_t at, int64_t elements) {
      return absl::MakeSpan(messages_.scratch.data() + at * size, static_cast<size_t>(elements * size));
    };
    messages_.scratch.resize(static_cast<size_t>((spec_.elements + (towers_.processes() - 1) * own_.size()) * size));
    int64_t free = spec_.elements;
    for (int process = 0; process < towers_.processes(); ++process) {
      const bool is_own = process == share_.process;
      messages_.sums.push_back(messages_.scratch.data() + (is_own ? own_.begin : free) * size);
      if (!is_own) free += own_.size();
    }
    ForEachPair([&](int to, int from) {
      const ElementRange theirs = SliceOf(to);
      gather.Send(to, bytes(theirs.begin, theirs.size()));
      gather.Receive(from, {static_cast<char*>(messages_.sums[from]), static_cast<size_t>(own_.size() * size)});
    });
  }

  void SpreadResults() {
    Transfers& spread = messages_.spread.emplace_back();
    ForEachPair([&](int to, int from) {
      spread.Send(to, share_.Bytes(share_.first(), own_));
      spread.Receive(from, share_.Bytes(share_.first(), SliceOf(from)));
    });
  }

  const WorldShare& share_;
  const CollectiveSpec& spec_;
  const TowersOfWorld& towers_;
  ElementRange own_;
  WorldMessages messages_;
};

}  // namespace

WorldMessages DirectMessages(const WorldShare& share) { return Direct(share).Make(); }

}  // namespace belfry
