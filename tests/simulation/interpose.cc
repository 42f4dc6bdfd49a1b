// The functions of the C library by which code under test starts threads, waits and reads clocks. Symbols of a program
// come before those of the libraries that it loads, so these serve libbelfry and the C++ library as well. Within a
// scheduler's run they go to that; otherwise to the C library.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <ctime>

#include "tests/simulation/scheduler.h"

namespace belfry::simulation {
namespace {

// The clocks' values at the beginning of a run: any that are not 0, so that a moment is never taken for a duration.
constexpr Nanoseconds kSteadyBegin = 1'000'000 * kSecond, kWallBegin = 1'700'000'000 * kSecond;
// A look at a clock takes about this long.
constexpr Nanoseconds kLook = 25;

Nanoseconds Beginning(clockid_t clock) { return clock == CLOCK_REALTIME ? kWallBegin : kSteadyBegin; }

Nanoseconds Count(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

template <class F>
F* Original(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace belfry::simulation

using belfry::simulation::Beginning;
using belfry::simulation::Count;
using belfry::simulation::kNever;
using belfry::simulation::Original;
using belfry::simulation::Scheduler;

extern "C" {

int pthread_create(pthread_t* id, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->Create(id, start, argument);
  static const auto original = Original(&pthread_create, "pthread_create");
  return original(id, attributes, start, argument);
}

int pthread_join(pthread_t id, void** result) {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->Join(id);
  static const auto original = Original(&pthread_join, "pthread_join");
  return original(id, result);
}

int pthread_detach(pthread_t id) noexcept {
  if (Scheduler::Current() != nullptr) return 0;
  static const auto original = Original(&pthread_detach, "pthread_detach");
  return original(id);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->Lock(*mutex);
  static const auto original = Original(&pthread_mutex_lock, "pthread_mutex_lock");
  return original(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->TryLock(*mutex);
  static const auto original = Original(&pthread_mutex_trylock, "pthread_mutex_trylock");
  return original(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->Unlock(*mutex);
  static const auto original = Original(&pthread_mutex_unlock, "pthread_mutex_unlock");
  return original(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Scheduler* const scheduler = Scheduler::Current()) return scheduler->Wait(*condition, *mutex, kNever);
  static const auto original = Original(&pthread_cond_wait, "pthread_cond_wait");
  return original(condition, mutex);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    return scheduler->Wait(*condition, *mutex, Count(*until) - Beginning(clock));
  }
  static const auto original = Original(&pthread_cond_clockwait, "pthread_cond_clockwait");
  return original(condition, mutex, clock, until);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    return scheduler->Wait(*condition, *mutex, Count(*until) - Beginning(CLOCK_REALTIME));
  }
  static const auto original = Original(&pthread_cond_timedwait, "pthread_cond_timedwait");
  return original(condition, mutex, until);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Notify(*condition, /*all=*/false);
    return 0;
  }
  static const auto original = Original(&pthread_cond_signal, "pthread_cond_signal");
  return original(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Notify(*condition, /*all=*/true);
    return 0;
  }
  static const auto original = Original(&pthread_cond_broadcast, "pthread_cond_broadcast");
  return original(condition);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Spend(belfry::simulation::kLook);
    const auto now = Beginning(clock) + scheduler->now();
    *time = {.tv_sec = now / belfry::simulation::kSecond, .tv_nsec = now % belfry::simulation::kSecond};
    return 0;
  }
  static const auto original = Original(&clock_gettime, "clock_gettime");
  return original(clock, time);
}

int nanosleep(const timespec* time, timespec* rest) {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Sleep(Count(*time));
    return 0;
  }
  static const auto original = Original(&nanosleep, "nanosleep");
  return original(time, rest);
}

int sched_yield() noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Sleep(belfry::simulation::kMicrosecond);
    return 0;
  }
  static const auto original = Original(&sched_yield, "sched_yield");
  return original();
}

// Errors and greetings name processes.
pid_t getpid() noexcept {
  constexpr pid_t kFirst = 1000;
  if (const Scheduler* const scheduler = Scheduler::Current()) return kFirst + scheduler->process();
  static const auto original = Original(&getpid, "getpid");
  return original();
}

void _exit(int status) {
  if (Scheduler* const scheduler = Scheduler::Current()) scheduler->Exit();
  static const auto original = Original(&_exit, "_exit");
  original(status);
  __builtin_unreachable();
}

}  // extern "C"
