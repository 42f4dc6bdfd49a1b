// A training of a tiny model in simulated processes.
//
// The control code is the product's own: OpenMpiWorld with MpiWorld and MpiWatcher, RunInWorld, and what the program of
// a rank calls. There are two programs (ProgramKind):
// - kHandMade calls CheckSameLines, ShareCheckpoint, WorldCollectives and TaskReports in the order in which the Trainer
//   does. Its model is written by hand, without sessions, so that a thousand ranks take seconds.
// - kTrainer is a program as users write it: a Trainer over a Session, a Prefetcher that reads the data, and a
//   directory with checkpoints, log and chain, from which it resumes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/parallel.h"
#include "framework/device/device_set.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scheduler.h"

namespace belfry::simulation {

struct RankResult {
  bool ended = false;
  Nanoseconds ended_at = kNever;
  absl::StatusOr<int> status = absl::UnknownError("it has not ended");  // the result of RunInWorld
  int64_t steps = 0;
  std::vector<float> weights;  // the weights after these steps; empty: not known
};

struct RunResult {
  std::vector<RankResult> ranks;
  int64_t messages = 0, switches = 0;
  std::vector<std::string> lock_cycles;  // LockOrder::Cycles
};

// The devices and stacks that all runs of a program or test share.
struct Machine {
  Machine();
  ScopedParallelThreads alone{1};  // OpenMP's threads are none of the scheduler's
  DeviceSet devices;               // a CPU
  Stacks stacks;
};

// The virtual time at which every run has ended or hangs.
Nanoseconds LimitOf(const Scenario& scenario);
// Trains to the end, or to that of the faults, from the disk's checkpoint. `disturbed`: with the fault.
RunResult Train(const Scenario& scenario, bool disturbed, Disk& disk, Machine& machine);
// The weights of the checkpoints on the disk, by step. Adds to `problems` what is wrong with files there, by
// themselves.
std::map<int64_t, std::vector<float>> ReadCheckpoints(const Scenario& scenario, Disk& disk,
                                                      std::vector<std::string>& problems);
// The weights after 0, 1, ... scenario.steps steps, computed in one process.
std::vector<std::vector<float>> ExpectedWeights(const Scenario& scenario, Machine& machine);

}  // namespace belfry::simulation
