// Moving a thread with its team from core to core.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace belfry {

// Moves the calling thread and its team (ParallelThreads) among cores, so that a computation can be repeated on others.
// Allocates only when it is made. One thread at a time.
class TeamCores {
 public:
  // `cores`: those to move among; with fewer than two, nothing is moved. `threads`: of the team, which has started; 1:
  // the calling thread alone.
  TeamCores(absl::Span<const int> cores, int threads);

  // Binds thread t of the team to the t-th core of the list, which begins again at its end; `away`: as many further on
  // as a core has hardware threads, so to another core, unless there is only one.
  void Move(bool away);
  // Lets the threads run where they could before the first Move. Does nothing without one.
  void Restore();
  // The cores of the team after Move, such as "cores 2, 3"; "the same cores" if nothing is moved.
  std::string Text(bool away) const;

 private:
  int CoreOf(int thread, bool away) const {
    return cores_[static_cast<size_t>(thread + (away ? distance_ : 0)) % cores_.size()];
  }
  // Calls body(t) on each thread t of the team.
  template <class F>
  void ForTeam(const F& body);

  std::vector<int> cores_;
  int distance_ = 1;
  std::vector<cpu_set_t> former_;  // by thread of the team
  bool moved_ = false;
};

}  // namespace belfry
