// Simulated training runs: their size, their network and what goes wrong, all drawn from a seed.
#pragma once

#include <cstdint>
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

struct Scenario {
  uint64_t seed = 0;
  int ranks = 4;
  int64_t steps = 8;
  int elements = 5;  // of the model
  int checkpoint_every = 3;
  WorldSum sum = WorldSum::kTowers;
  WorldRoute route = WorldRoute::kFaster;
  // The patience of ranks with each other: at the start and the end, and in a step.
  Nanoseconds timeout = 500 * kMillisecond, step_timeout = 200 * kMillisecond;
  Nanoseconds computing = 2 * kMillisecond;  // that a step takes, without its averages
  NetworkOptions network;
  int switch_every = 0;  // of Scheduler
  // Linux ends sleeps up to 50 us late (prctl(2), PR_SET_TIMERSLACK).
  Nanoseconds slack = 50 * kMicrosecond;
  Nanoseconds laziness = 0;  // of Scheduler
  Fault fault = Fault::kNone;
  int victim = 0;
  int other = 0;            // kCut: the rank that the link leads to
  Nanoseconds at = 0;       // when the fault begins
  Nanoseconds lasting = 0;  // kPause, kLate: for so long; kDelay: longer by so much
};

// `ranks`: 0 for 2 to 168, drawn too.
Scenario Draw(uint64_t seed, int ranks);
std::string ToString(const Scenario& scenario);

inline absl::Duration ToDuration(Nanoseconds time) { return absl::Nanoseconds(time); }

}  // namespace belfry::simulation
