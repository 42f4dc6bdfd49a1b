// Contention for the cores that a group of threads runs on, with other programs or other threads of this one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace belfry {

// Times of one thread since it started, in ns.
struct ThreadTimes {
  int64_t running = 0;
  int64_t waiting = 0;  // ready to run, but without a core
};

// nullopt if the thread, one of this process, has ended, or if the kernel does not count (/proc/TID/schedstat,
// CONFIG_SCHED_INFO).
std::optional<ThreadTimes> ReadThreadTimes(pid_t thread);

// Looks at a group of threads at regular intervals. Threads that have their cores to themselves wait for a few percent
// of their time at most, also if they sleep and wake thousands of times a second; beside one busy program per core they
// wait for half of it. For one thread at a time.
class Contention {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(20);

  // Threads to look at from now on, until they end, each once.
  void Add(absl::Span<const pid_t> threads);

  // Call every kInterval. False if no thread has run since the last call.
  bool Look();

  // Takes the largest share of its ready time, 0 to 1, that a thread waited during the last interval. found() is true
  // after 60 ms beside two busy programs per core, and false again 0.2 to 0.4 s after they end.
  void Observe(double share);

  bool found() const { return found_; }

 private:
  struct Thread {
    pid_t id;
    ThreadTimes start;  // of the interval, which grows until the thread was ready for long enough
    ThreadTimes last;
  };

  std::vector<Thread> threads_;
  double mean_ = 0;
  bool found_ = false;
};

}  // namespace belfry
