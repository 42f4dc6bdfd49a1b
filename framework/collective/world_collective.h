// The averagers `local` and `mpi` among the processes of a world.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"
#include "framework/collective/world.h"

namespace belfry {

// The towers of all processes, numbered by process.
struct TowersOfWorld {
  std::vector<int> first;  // by process, the number of its first tower; the last element is the number of all towers
  int count(int process) const { return first[process + 1] - first[process]; }
  int total() const { return first.back(); }
  int processes() const { return static_cast<int>(first.size()) - 1; }

  // Asks all processes for their numbers. Errors: those of World::AllGather.
  static absl::StatusOr<TowersOfWorld> Gather(World& world, int mine, absl::Time deadline);
  // InvalidArgument unless the ranks of a collective are the towers of process `process` among all.
  absl::Status Check(const CollectiveSpec& spec, int process) const;
};

// The order in which the towers of several processes are summed.
enum class WorldSum {
  kTowers,  // in the order of their numbers (MakeLocalCollective): the bits of the local averager among as many towers
            // in one process
  kProcesses,  // the towers of each process first, then the processes in order: the bits depend on the layout
};

// The way of data between processes; all give the same bits.
enum class WorldRoute {
  kFaster,  // the next two's faster one, as estimated from the sizes of collective and world
  kDirect,  // each process adds up one slice, which it gets from all others, and sends the result to all
  kTree,    // process 0 adds up all, which goes there and comes back through a binomial tree of processes
};

// SessionOptions::collectives for a process of `world`, which must outlive them. Collectives whose ranks are all in
// this process are local ones. All others are summed as the local averager does, once for each element, so that all
// processes get the same bits. The data of GPUs goes through host memory (staged.h). All processes must run the same
// collectives in the same order, one at a time, and each must have the ranks that `towers` gives it. Errors:
// InvalidArgument for CPU devices and GPUs in one process, other ranks, and dtypes that cannot be averaged;
// ResourceExhausted. If a process does not answer, a run's error names the processes that this one waits for; on the
// tree they may themselves wait for it (World::RollCall).
//
// For P processes with L towers each, and S bytes of one tower: direct messages take 2 (P - 1) messages' latency. Each
// process sends, and receives, (L + 1) S (P - 1) / P bytes for kTowers, and (S' + S) (P - 1) / P for kProcesses, where
// S' are the bytes of sums: S, or 2 S for 16-bit types. A ring takes 2 S (P - 1) / P. The tree takes 2 log2(P)
// messages' latency; process 0 gets L S (P - 1) bytes, or S' (P - 1), and sends S log2(P).
CollectiveFactory WorldCollectives(World& world, const TowersOfWorld& towers, WorldSum sum = WorldSum::kTowers,
                                   WorldRoute route = WorldRoute::kFaster);

}  // namespace belfry
