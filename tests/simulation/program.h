// The programs that simulated ranks run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective/world.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/training.h"

namespace belfry::simulation {

// The run as the program of one rank sees it.
struct RankOfRun {
  const Scenario& scenario;
  const bool is_victim;  // it has the scenario's fault, in a run that is disturbed
  Scheduler& scheduler;
  World& world;
  Machine& machine;
  Disk& disk;
  RankResult& result;

  // True from the moment on at which it meets the fault, if that is one of programs.
  bool Meets(Fault fault) const { return is_victim && scenario.fault == fault && scheduler.now() >= scenario.at; }
};

// The error of Fault::kError.
absl::Status InputError();

// The body of RunInWorld; training.h says what each program is.
absl::StatusOr<int> RunHandMadeProgram(const RankOfRun& rank);
absl::StatusOr<int> RunTrainerProgram(const RankOfRun& rank);

// The weights of the checkpoints on the disk, by step. Files that cannot be read, and what an audit of the run finds,
// are added to `problems`.
std::map<int64_t, std::vector<float>> CheckpointsOfHandMadeProgram(Disk& disk);
std::map<int64_t, std::vector<float>> CheckpointsOfTrainerProgram(Disk& disk, std::vector<std::string>& problems);

// The weights after 0, 1, ... scenario.steps steps, computed in one process.
std::vector<std::vector<float>> WeightsOfHandMadeProgram(const Scenario& scenario, Machine& machine);
std::vector<std::vector<float>> WeightsOfTrainerProgram(const Scenario& scenario, Machine& machine);

}  // namespace belfry::simulation
