#include "framework/base/machine/team.h"

#include <omp.h>

#include <algorithm>
#include <thread>

#include "framework/base/parallel.h"

namespace belfry {
namespace {

// Turns before a waiting thread yields, which take some microseconds.
constexpr int kSpins = 4096;

}  // namespace

void StepBarrier::Wait(int threads) {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
    waiting_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  for (int turn = 0; round_.load(std::memory_order_acquire) == round; ++turn) {
    if (turn >= kSpins) std::this_thread::yield();
  }
}

void RunTeam(int threads, absl::FunctionRef<void(const TeamMember& member)> body) {
  StepBarrier barrier;
  if (std::min(threads, ParallelThreads()) <= 1 || InParallelRegion() || !StartParallelThreads().ok()) {
    return body(TeamMember(0, 1, barrier));
  }
  // The whole team runs this, for the reason that ParallelFor states.
#pragma omp parallel
  {
    const int rank = omp_get_thread_num(), size = std::min(threads, omp_get_num_threads());
    if (rank < size) body(TeamMember(rank, size, barrier));
  }
}

}  // namespace belfry
