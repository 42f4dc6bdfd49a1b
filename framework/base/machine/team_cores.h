// Moving a thread with its team to other cores.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace belfry {

// Moves the calling thread and its team (ParallelThreads) to other cores, so that a computation can be repeated there.
// Allocates only when it is made. One thread at a time.
class TeamCores {
 public:
  // `cores`: to move among, as AvailableCores orders them; with fewer than two, nothing is moved. `threads`: of the
  // started team; 1: the calling thread alone.
  TeamCores(absl::Span<const int> cores, int threads);

  // Binds each thread to the core on which it is, since the system may move it while it computes.
  void Stay();
  // Binds each thread to another core than the one on which it is, or was bound by Stay: the next one in the cyclic
  // list that is not a hardware thread of the same core. A thread on a core outside the list stays.
  void Move();
  // Lets the threads run where they could before Stay or Move. Does nothing without one.
  void Restore();
  // The cores of the threads before the last Move and after it: "on cores 2, 3 and then on cores 3, 2"; "on the same
  // cores" if it moved nothing.
  std::string Text() const;

 private:
  struct Member {
    cpu_set_t former;
    int from = -1, to = -1;  // cores
  };

  // Calls body(thread) on each thread of the team.
  template <class F>
  void ForTeam(const F& body);

  std::vector<int> next_;  // by core: where its thread moves to, or -1
  std::vector<Member> team_;
  bool bound_ = false;
};

}  // namespace belfry
