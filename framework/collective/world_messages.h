// The messages of collectives among processes.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "framework/collective/collective.h"
#include "framework/collective/transfers.h"
#include "framework/collective/world_collective.h"

namespace belfry {

// A process's part in a collective. Borrows.
struct WorldShare {
  const CollectiveSpec& spec;
  const TowersOfWorld& towers;
  int process = 0;
  WorldSum sum = WorldSum::kTowers;

  bool gathers() const { return spec.kind == CollectiveKind::kAllGather; }
  bool scatters() const { return spec.kind == CollectiveKind::kReduceScatter; }
  bool sums_processes() const {
    return sum == WorldSum::kProcesses && spec.kind != CollectiveKind::kBroadcast && !gathers();
  }
  // The data of the first rank of this process.
  void* first() const { return spec.ranks[0].data; }
  // Elements of a rank's data.
  absl::Span<char> Bytes(void* data, const ElementRange& elements) const;
  // The slices of the ranks of processes [begin, end), for collectives with slices.
  ElementRange SlicesOf(int begin, int end) const;
};

// Messages of one process, and the memory that they need beside the ranks' data. A run exchanges `gather`, adds up
// elements `own` if adds_up, and exchanges `spread`. May be moved, for what they point to stays where it is.
struct WorldMessages {
  std::vector<Transfers> gather = {}, spread = {};  // exchanges, one after the other
  bool adds_up = false;
  ElementRange own = {};
  std::vector<CollectiveRank> all = {};  // for kTowers: the ranks of all processes; their data begins with own
  std::vector<void*> sums = {};          // for kProcesses: every process's sum, by process; each begins with own
  std::vector<float> weights = {};       // by rank; empty unless for a mean
  // The sum of all weights, for a mean in which only process 0 has them; otherwise null. Set there before `spread`.
  std::unique_ptr<double> total = nullptr;
  // For kProcesses it begins with this process's sum of all elements, which is set before `gather`.
  std::vector<char> scratch = {};

  // The weights of the towers of processes [begin, end), which lie side by side.
  absl::Span<char> WeightsOf(const TowersOfWorld& towers, int begin, int end);
};

// Each process gets a slice of the elements from all others, adds it up, and sends the result to all.
WorldMessages DirectMessages(const WorldShare& share);

// Data goes up a tree of processes (process_tree.h) as it is, process 0 adds it up as the local averager does, and the
// result comes down. So the bits are as with direct messages.
WorldMessages TreeMessages(const WorldShare& share);

// True if the tree takes less time. The same in all processes.
bool IsTreeFaster(const WorldShare& share);

}  // namespace belfry
