#include "framework/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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

// If a team comes out smaller than announced, oneDNN leaves out the parts of the missing threads, or waits for them
// forever. Each setting is the calling thread's own.
ScopedParallelThreads::ScopedParallelThreads(int threads) : former_(omp_get_max_threads()) {
  if (threads > 1) {
    threads = std::min(threads, omp_get_thread_limit());
    if ((dynamic_ = omp_get_dynamic() != 0)) omp_set_dynamic(0);
    if ((inactive_ = omp_get_max_active_levels() == 0)) omp_set_max_active_levels(1);
  }
  omp_set_num_threads(threads);
}
ScopedParallelThreads::~ScopedParallelThreads() {
  omp_set_num_threads(former_);
  if (dynamic_) omp_set_dynamic(1);
  if (inactive_) omp_set_max_active_levels(0);
}

absl::Status StartParallelThreads() {
  const int threads = ParallelThreads();
  if (threads <= 1) return absl::OkStatus();
  if (team_is_lost) return TeamIsLost();
  if (InParallelRegion()) {
    return absl::FailedPreconditionError(
        absl::StrCat("A team of ", threads, " threads is wanted within a parallel region of OpenMP"));
  }
  NoteParallelLoop();
  if (threads <= started_team) return absl::OkStatus();
  RETURN_IF_ERROR(TryThreads(threads - started_team));
  std::vector<pid_t> team(threads);
  int size = 1;
#pragma omp parallel
  {
    team[omp_get_thread_num()] = gettid();
    if (omp_get_thread_num() == 0) size = omp_get_num_threads();
  }
  if (size < threads) {
    return absl::FailedPreconditionError(
        absl::StrCat("OpenMP gives a team of ", size, " threads where ", threads,
                     " are wanted. Unset the variables OMP_DYNAMIC, OMP_MAX_ACTIVE_LEVELS and OMP_THREAD_LIMIT, or use "
                     "one thread per device"));
  }
  LimitSpinning(team);
  static const int registered = pthread_atfork(nullptr, nullptr, [] { team_is_lost = started_team > 1; });
  static_cast<void>(registered);
  started_team = threads;
  return absl::OkStatus();
}

bool InParallelRegion() { return omp_in_parallel() != 0; }

absl::Status OnThread(absl::FunctionRef<void()> body) {
  ASSIGN_OR_RETURN(std::thread thread, StartThread("for a step within a parallel region", body));
  thread.join();
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
  if (InParallelRegion() || !StartParallelThreads().ok()) {
    for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
    return;
  }
  // By the whole team, though some have nothing to do: libgomp ends the threads that a smaller team leaves out, and the
  // next loop starts others.
#pragma omp parallel for schedule(static, 1)
  for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
}

}  // namespace belfry
