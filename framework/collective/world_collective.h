// The averager `local` among the processes of a world.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"
#include "framework/collective/world.h"

namespace belfry {

// The towers of all processes, numbered by process.
struct TowersOfWorld {
  std::vector<int> first;  // by process, the number of its first tower; and, as the last element, that of all towers
  int count(int process) const { return first[process + 1] - first[process]; }
  int total() const { return first.back(); }

  // Asks all processes for their numbers. Errors: those of World::AllGather.
  static absl::StatusOr<TowersOfWorld> Gather(World& world, int mine, absl::Time deadline);
};

// SessionOptions::collectives for a process of `world`, which must outlive them. Collectives whose ranks are all in
// this process are local ones. All others are of CPU devices, and have the bits of the local averager among as many
// towers in one process: each process gets one slice of every tower of all others, sums it in ascending rank order as
// the local averager does, and sends the result to all. All processes must make the same collectives in the same order,
// and each must have the ranks that `towers` gives it. Errors: InvalidArgument for GPUs, other ranks, and dtypes that
// cannot be averaged.
//
// P processes with L towers each, and S bytes of one tower, take 2 (P - 1) messages' latency and (L + 1) S (P - 1) / P
// bytes each way per process; with one tower per process that is what a ring takes.
CollectiveFactory WorldCollectives(World& world, const TowersOfWorld& towers);

}  // namespace belfry
