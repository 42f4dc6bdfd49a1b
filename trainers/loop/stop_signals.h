// Ctrl-C, SIGTERM and SIGUSR1 as requests to stop, which a run polls.
#pragma once

#include <csignal>
#include <string>

namespace belfry::trainers {

// During its lifetime, the first SIGINT, SIGTERM or SIGUSR1 is only recorded; a second SIGINT or SIGTERM terminates the
// program, as the first would otherwise. (Launchers and batch systems pass SIGUSR1 on to all processes, twice if both
// do, and leave them the time to save.) REQUIRES: at most one instance at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal received, or 0. Thread-safe.
  static int noted();

 private:
  struct sigaction previous_[4];  // the previous handlers
};

// "SIGINT", "SIGTERM", "SIGUSR1".
std::string SignalName(int signal);

}  // namespace belfry::trainers
