// Ctrl-C, SIGTERM, SIGUSR1 and a limit on time as requests to stop, which a run polls.
#pragma once

#include <csignal>
#include <string>

#include "absl/time/time.h"

namespace belfry::trainers {

// During its lifetime, the first SIGINT, SIGTERM or SIGUSR1 is only recorded; a second SIGINT or SIGTERM terminates the
// program, as the first would otherwise. (Launchers and batch systems pass SIGUSR1 on to all processes, twice if both
// do, and leave them the time to save.) When `limit` is over, it is as if SIGALRM came. REQUIRES: at most one instance
// at a time; with a limit, nothing else uses setitimer or alarm.
class StopSignals {
 public:
  explicit StopSignals(absl::Duration limit = absl::InfiniteDuration());
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal received, or 0. Thread-safe.
  static int noted();
  // The time at which the process last went on after it was stopped (SIGSTOP, Ctrl-Z), as SteadyNow(); InfinitePast if
  // it was not. Thread-safe.
  static absl::Time went_on();

 private:
  const bool limited_;
  struct sigaction previous_[6];  // the previous handlers
};

// "SIGINT", "SIGTERM", "SIGUSR1"; SIGALRM is "the time limit".
std::string SignalName(int signal);

}  // namespace belfry::trainers
