// Checks of a simulated run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/training.h"

namespace belfry::simulation {

// The ranks that an error blames: those that its roll call says are silent; if it has none, those that an exchange
// waited for in vain, or that ended with an error of their own.
std::vector<int> Blamed(absl::string_view error);

// The task for which each task waits, by the roll call of an error.
std::map<int, int> Awaited(absl::string_view error);

// The outcome of a scenario.
struct Report {
  std::vector<std::string> problems;
  RunResult disturbed;
  uint64_t fingerprint = 0;  // a digest of all ranks' errors, ends and weights
};

// Trains with the scenario's fault, and then, unless that run came to its end, without it from where it stopped.
// Problems:
// - a rank hangs, or ends later than its deadlines and those of what it does after an error allow;
// - a rank ends with an error although nothing, or nothing that harms, went wrong; or well although a rank is lost;
// - a healthy rank blames another one that is healthy, or none;
// - weights, of ranks or of a checkpoint, differ from those of an undisturbed run after as many steps;
// - files that the run leaves are damaged, or differ from its chain (docs/audit.md);
// - mutexes are locked in orders that can deadlock.
Report Simulate(const Scenario& scenario, Machine& machine);

}  // namespace belfry::simulation
