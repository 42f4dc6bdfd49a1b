// A training of a tiny model in simulated processes.
//
// The control code is that of the product: OpenMpiWorld with MpiWorld and MpiWatcher, RunInWorld, CheckSameLines,
// ShareCheckpoint, WorldCollectives and TaskReports, in the order in which the Trainer calls them. The model is written
// by hand, without sessions, since it is the control code that is simulated, and a thousand ranks are to take seconds:
// a vector of weights, which each rank moves towards examples of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scheduler.h"

namespace belfry::simulation {

// Rank 0's disk, which outlives the processes.
struct Disk {
  int64_t step = -1;  // of the checkpoint; -1: none
  std::vector<float> weights;
};

struct RankResult {
  bool ended = false;
  Nanoseconds ended_at = kNever;
  absl::StatusOr<int> status = absl::UnknownError("it has not ended");  // of RunInWorld
  int64_t steps = 0;
  std::vector<float> weights;
};

struct RunResult {
  std::vector<RankResult> ranks;
  int64_t messages = 0, switches = 0;
  std::vector<std::string> lock_cycles;  // LockOrder::Cycles
};

// The devices and stacks that all runs of a program or test share.
struct Machine {
  Machine();
  DeviceSet devices;  // a CPU
  Stacks stacks;
};

// The virtual time at which every run has ended or hangs.
Nanoseconds LimitOf(const Scenario& scenario);
// Trains to the end, or to that of the faults, from the disk's checkpoint. `disturbed`: with the fault.
RunResult Train(const Scenario& scenario, bool disturbed, Disk& disk, Machine& machine);
// The weights after so many steps, computed without messages or threads.
std::vector<float> ExpectedWeights(const Scenario& scenario, int64_t steps, Machine& machine);

}  // namespace belfry::simulation
