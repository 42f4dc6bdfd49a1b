#include "framework/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "framework/base/machine/spinning.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace belfry {
namespace {

// Waking a sleeping OpenMP team takes some microseconds, so each thread must get at least this many scalar operations.
constexpr double kOperationsPerThread = 32 * 1024;

// The largest team that StartParallelThreads has started for this thread: OpenMP keeps it, but tells nobody.
thread_local int started_team = 1;

// True on a thread whose team stayed behind in the parent process when it forked.
thread_local bool team_is_lost = false;

absl::Status TeamIsLost() {
  return absl::FailedPreconditionError(
      "This process was forked from one that had run parallel loops on this thread, whose other threads fork does not "
      "copy. Run Belfry on a new thread, call exec after fork, or fork before the first step");
}

}  // namespace

int ParallelThreads() { return omp_get_max_threads(); }

ScopedParallelThreads::ScopedParallelThreads(int threads) : former_(omp_get_max_threads()) {
  // If a team comes out smaller than announced (OMP_THREAD_LIMIT), oneDNN waits forever for the missing threads.
  omp_set_num_threads(std::min(threads, omp_get_thread_limit()));
}
ScopedParallelThreads::~ScopedParallelThreads() { omp_set_num_threads(former_); }

absl::Status StartParallelThreads() {
  const int threads = ParallelThreads();
  if (threads > 1 && team_is_lost) return TeamIsLost();
  if (threads > 1) NoteParallelLoop();
  if (threads <= started_team || omp_in_parallel() != 0) return absl::OkStatus();  // loops inside of loops have none
  RETURN_IF_ERROR(TryThreads(threads - started_team));
  std::vector<pid_t> team(threads);
#pragma omp parallel
  team[omp_get_thread_num()] = gettid();
  LimitSpinning(team);
  static const int registered = pthread_atfork(nullptr, nullptr, [] { team_is_lost = started_team > 1; });
  static_cast<void>(registered);
  started_team = threads;
  return absl::OkStatus();
}

bool IsWorthThreads(double operations) { return operations >= 2 * kOperationsPerThread; }

void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  const double work = static_cast<double>(n) * cost;
  int64_t threads = 1;
  if (IsWorthThreads(work)) {
    threads = std::min({static_cast<int64_t>(ParallelThreads()), static_cast<int64_t>(work / kOperationsPerThread), n});
  }
  if (threads <= 1) return body(0, n);
  // The same ranges without the threads, if the system refuses them.
  if (!StartParallelThreads().ok()) {
    for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
    return;
  }
  // By the whole team, though some have nothing to do: libgomp ends the threads that a smaller team leaves out, and the
  // next loop starts others.
#pragma omp parallel for schedule(static, 1)
  for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
}

}  // namespace belfry
