#include "framework/base/machine/spinning.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "framework/base/machine/contention.h"
#include "framework/base/mutex.h"
#include "framework/base/steady_time.h"
#include "framework/base/thread.h"

// Only LLVM's OpenMP has it: the milliseconds that the calling thread's team spins after a parallel region.
extern "C" [[gnu::weak]] void kmp_set_blocktime(int milliseconds);

namespace belfry {
namespace {

// A team of one thread more than there are cores, which sleeps. libgomp lets threads spin for about 3 ms before they
// sleep, but only for 100 turns of a loop, a few microseconds, while it manages more threads than cores.
// OMP_WAIT_POLICY, the documented way, is read when libgomp is loaded, before any code of ours runs. It belongs to the
// thread that calls the functions, always the same.
class SleepingTeam {
 public:
  void Start() {
    if (started_ || SteadyNow() < next_try_) return;
    // A new thread has the number of threads that libgomp found cores for at first; this process may have been bound to
    // some of them since.
    const int threads = std::max(omp_get_max_threads(), omp_get_num_procs()) + 1;
    // The system may be short of threads, of which each try takes some from others.
    next_try_ = SteadyNow() + kRetry;
    if (!TryThreads(threads - 1).ok()) return;
    std::atomic<int> met{0};
#pragma omp parallel num_threads(threads)
    met.fetch_add(1, std::memory_order_relaxed);
    started_ = met > 0;
  }
  void End() {
    if (!started_) return;
    omp_pause_resource_all(omp_pause_soft);  // ends the calling thread's team
    started_ = false;
    next_try_ = absl::InfinitePast();
  }

 private:
  static constexpr absl::Duration kRetry = absl::Seconds(10);
  bool started_ = false;
  absl::Time next_try_ = absl::InfinitePast();
};

// Watches teams until the process ends, on a thread of its own.
class Watcher {
 public:
  void Add(absl::Span<const pid_t> team) {
    if (lost_) return;
    {
      const MutexLock lock(mutex_);
      added_.insert(added_.end(), team.begin(), team.end());
      grew_.store(true);
      if (!started_) {
        auto thread = StartThread("that keeps others from spinning", [this] { Watch(); });
        if (!thread.ok()) return;
        thread->detach();
        started_ = true;
      }
    }
    NoteLoop();
  }

  void NoteLoop() {
    if (!asleep_.load(std::memory_order_relaxed) || !asleep_.exchange(false)) return;
    asleep_.notify_one();
  }

  bool shared() const { return shared_.load(std::memory_order_relaxed); }

  // After fork, which copies neither the thread nor, perhaps, an unlocked mutex.
  void Lose() { lost_ = true; }

 private:
  void Watch() {
    UseShortTimeSlices();
    const bool known = ReadThreadTimes(gettid()).has_value();
    SleepingTeam sleeping;
    Contention contention;
    for (;;) {
      if (grew_.exchange(false)) {
        const MutexLock lock(mutex_);
        contention.Add(added_);
        added_.clear();
      }
      contention.found() || !known ? sleeping.Start() : sleeping.End();
      shared_.store(contention.found(), std::memory_order_relaxed);
      absl::SleepFor(Contention::kInterval);
      if (contention.Look()) continue;
      asleep_.store(true);
      asleep_.wait(true);
    }
  }

  std::atomic<bool> lost_{false};
  Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<pid_t> added_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> grew_{false};
  std::atomic<bool> shared_{false};
  std::atomic<bool> asleep_{false};
};

// For as long as the process lives, since its thread does.
Watcher& TheWatcher() {
  static Watcher& watcher = []() -> Watcher& {
    pthread_atfork(nullptr, nullptr, [] { TheWatcher().Lose(); });
    return *new Watcher;
  }();
  return watcher;
}

bool ChosenByUser() {
  static const bool chosen = std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  return chosen;
}

}  // namespace

void LimitSpinning(absl::Span<const pid_t> team) {
  if (ChosenByUser()) return;
  if (kmp_set_blocktime != nullptr) return kmp_set_blocktime(0);
  TheWatcher().Add(team);
}

bool CoresAreShared() { return TheWatcher().shared(); }

void NoteParallelLoop() { TheWatcher().NoteLoop(); }

}  // namespace belfry
