// Ctrl-C and SIGTERM as requests to stop, which a run polls.
#pragma once

#include <csignal>
#include <string>

namespace belfry::trainers {

// During its lifetime, the first SIGINT or SIGTERM is only recorded; a second one terminates the program, as the first
// would otherwise. REQUIRES: at most one instance at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal received, or 0. Thread-safe.
  static int noted();

 private:
  struct sigaction interrupt_, terminate_;  // the previous handlers
};

// "SIGINT", "SIGTERM".
std::string SignalName(int signal);

}  // namespace belfry::trainers
