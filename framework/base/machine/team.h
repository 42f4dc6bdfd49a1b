// Threads of a CPU device that do the steps of one computation together.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace belfry {

// A barrier that the same threads meet at again and again.
class StepBarrier {
 public:
  // Returns when `threads` threads have called it. Until then they spin for microseconds, and after that let others run
  // between their looks. Each sees what the others wrote before.
  void Wait(int threads);

 private:
  std::atomic<int> waiting_{0};
  std::atomic<uint32_t> round_{0};
};

// A thread of a team, the one with number `rank` of `size`.
class TeamMember {
 public:
  TeamMember(int rank, int size, StepBarrier& barrier) : rank_(rank), size_(size), barrier_(barrier) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns when all members have called it as often.
  void Meet() const {
    if (size_ > 1) barrier_.Wait(size_);
  }

 private:
  int rank_, size_;
  StepBarrier& barrier_;
};

// Calls body for every member of a team, at the same time, on up to `threads` threads of ParallelThreads(). They may be
// fewer, down to the calling one alone, where the system refuses threads, so work is divided by size().
void RunTeam(int threads, absl::FunctionRef<void(const TeamMember& member)> body);

}  // namespace belfry
