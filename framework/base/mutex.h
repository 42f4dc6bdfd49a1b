// A mutex that both clang's -Wthread-safety and ThreadSanitizer understand. A prebuilt absl::Mutex is not instrumented,
// so ThreadSanitizer misses the ordering it gives and reports false races.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace belfry {

// Annotate the data it guards: `int count ABSL_GUARDED_BY(mutex_);`. Lock it with MutexLock.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

  // Waits until `condition` holds. The condition is evaluated with the mutex held, before waiting and after each
  // NotifyAll. The mutex is released while waiting and held again on return. REQUIRES: the calling thread holds it.
  void Await(absl::FunctionRef<bool()> condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    while (!condition()) changed_.wait(lock);
    lock.release();
  }
  // Like Await, but gives up at the deadline, a moment of SteadyNow. Returns the condition's last value.
  bool AwaitUntil(absl::Time deadline, absl::FunctionRef<bool()> condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    if (deadline == absl::InfiniteFuture()) {
      Await(condition);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    const std::chrono::steady_clock::time_point until(absl::ToChronoNanoseconds(deadline - absl::UnixEpoch()));
    const bool holds = changed_.wait_until(lock, until, condition);
    lock.release();
    return holds;
  }
  // Call after any change that may make a condition of Await or AwaitUntil true.
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Holds a mutex for the lifetime of the object.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace belfry
