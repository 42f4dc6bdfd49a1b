#include "framework/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "framework/base/status.h"
#include "framework/base/thread.h"

// Only LLVM's OpenMP has it: the milliseconds that the calling thread's team spins after a parallel region.
extern "C" [[gnu::weak]] void kmp_set_blocktime(int milliseconds);

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

// Starts a team of one thread more than there are cores, which sleeps for the rest of the process. libgomp lets threads
// spin for about 3 ms before they sleep, but only for 100 turns of a loop, a few microseconds, while it manages more
// threads than cores. OMP_WAIT_POLICY, the documented way, is read when libgomp is loaded, before any code of ours
// runs. Without threads for it, loops spin as they always did.
void OccupyOpenMp() {
  static std::atomic<bool> done{false};  // static, since the sleeper may notify after the caller went on
  auto sleeper = StartThread("that keeps others from spinning", [] {
    // A new thread has the number of threads that libgomp found cores for at first; this process may have been bound to
    // some of them since.
    const int threads = std::max(omp_get_max_threads(), omp_get_num_procs()) + 1;
    std::atomic<int> met{0};
    if (TryThreads(threads - 1).ok()) {
#pragma omp parallel num_threads(threads)
      met.fetch_add(1, std::memory_order_relaxed);
    }
    done.store(true);
    done.notify_one();
    while (met > 0) ::pause();
  });
  if (!sleeper.ok()) return;
  done.wait(false);
  sleeper->detach();
}

// Lets threads that wait for the next parallel loop give their cores away after microseconds: other programs, or other
// devices of this one, may need them. A choice that the user made in the environment stands.
void LimitSpinning() {
  static const bool limited = [] {
    pthread_atfork(nullptr, nullptr, [] { team_is_lost = started_team > 1; });
    const bool chosen = std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
    if (!chosen && kmp_set_blocktime == nullptr) OccupyOpenMp();
    return !chosen;
  }();
  if (limited && kmp_set_blocktime != nullptr) kmp_set_blocktime(0);
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
  if (threads <= started_team || omp_in_parallel() != 0) return absl::OkStatus();  // loops inside of loops have none
  RETURN_IF_ERROR(TryThreads(threads - started_team));
  LimitSpinning();
  std::atomic<int> met{0};  // the compiler drops a region that does nothing
#pragma omp parallel
  met.fetch_add(1, std::memory_order_relaxed);
  started_team = threads;
  return absl::OkStatus();
}

void ParallelFor(int64_t n, double cost, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  const double work = static_cast<double>(n) * cost;
  int64_t threads = 1;
  if (work >= 2 * kOperationsPerThread) {
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
