// Simulated training runs: their size, their network and what goes wrong, all drawn from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "framework/collective/world_collective.h"
#include "tests/simulation/network.h"

namespace belfry::simulation {

enum class Fault {
  kNone,
  kCrash,   // a rank's process ends without a word
  kStop,    // it stops for good, as after SIGSTOP
  kPause,   // it stops, and goes on
  kLate,    // it starts late
  kCut,     // nothing more goes over a link in one direction
  kDelay,   // all its messages take longer from now on
  kError,   // its program meets an error
  kSignal,  // it is asked to stop
};
std::string FaultName(Fault fault);

// The program of each rank (training.h).
enum class ProgramKind { kHandMade, kTrainer };
// The most ranks with a Trainer: compiling the plans of more would take most of the time of all runs.
inline constexpr int kMostWithTrainer = 8;

struct Scenario {
  uint64_t seed = 0;
  ProgramKind program = ProgramKind::kHandMade;
  int ranks = 4;
  int64_t steps = 8;
  int elements = 5;  // elements of the model or, with a Trainer, of an example
  int checkpoint_every = 3;
  WorldSum sum = WorldSum::kTowers;
  WorldRoute route = WorldRoute::kFaster;
  // Options of the Trainer only.
  int towers = 1;           // towers of each rank
  size_t bucket_bytes = 4;  // one for each variable, or for all
  bool shard_optimizer = false, threads_of_devices = false;
  int check_replicas_every = 0, evaluate_every = 0;
  // The patience of ranks with each other: at the start and the end, and in a step.
  Nanoseconds timeout = 500 * kMillisecond, step_timeout = 200 * kMillisecond;
  Nanoseconds computing = 2 * kMillisecond;  // the time of a step without its averages
  NetworkOptions network;
  int switch_every = 0;  // an argument of Scheduler
  // Linux ends sleeps up to 50 us late (prctl(2), PR_SET_TIMERSLACK).
  Nanoseconds slack = 50 * kMicrosecond;
  Nanoseconds laziness = 0;  // an argument of Scheduler
  Fault fault = Fault::kNone;
  int victim = 0;
  int other = 0;            // kCut: the rank that the link leads to
  Nanoseconds at = 0;       // the beginning of the fault
  Nanoseconds lasting = 0;  // kPause, kLate: for so long; kDelay: longer by so much
};

// Choices that are not drawn.
struct Chosen {
  int ranks = 0;  // 0: drawn, 2 to 168
  // Not set: drawn, mostly that by hand, and always with more than kMostWithTrainer ranks.
  std::optional<ProgramKind> program = {};
};
Scenario Draw(uint64_t seed, const Chosen& chosen = {});
std::string ToString(const Scenario& scenario);

inline absl::Duration ToDuration(Nanoseconds time) { return absl::Nanoseconds(time); }

}  // namespace belfry::simulation
