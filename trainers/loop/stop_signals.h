// Ctrl-C, as a wish that the run may fulfil.
#pragma once

#include <csignal>
#include <string>

namespace belfry::trainers {

// While it lives, the first SIGINT or SIGTERM is only noted; a second one ends the program at once, as either would
// otherwise. Any thread may ask. REQUIRES: one at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that was noted, or 0.
  static int noted();

 private:
  struct sigaction interrupt_, terminate_;  // as they were before
};

// "SIGINT", "SIGTERM".
std::string SignalName(int signal);

}  // namespace belfry::trainers
