// The functions of the C library by which code under test starts threads, waits and reads clocks. Symbols of a program
// come before those of the libraries that it loads, so these serve libbelfry and the C++ library as well. Within a
// scheduler's run they go to that; otherwise to the C library.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <ctime>

#include "absl/base/config.h"
#include "tests/simulation/scheduler.h"

namespace belfry::simulation {
namespace {

// The clocks' values at the beginning of a run: any that are not 0, so that a moment is never taken for a duration.
constexpr Nanoseconds kSteadyBegin = 1'000'000 * kSecond, kWallBegin = 1'700'000'000 * kSecond;
// A look at a clock takes about this long.
constexpr Nanoseconds kLook = 25;
// A disk takes about this long to write what it was given.
constexpr Nanoseconds kSync = kMillisecond;

Nanoseconds Beginning(clockid_t clock) { return clock == CLOCK_REALTIME ? kWallBegin : kSteadyBegin; }

Nanoseconds Count(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

// futex(2), as far as events and the C++ library use it. The time of FUTEX_WAIT is relative, that of FUTEX_WAIT_BITSET
// is not.
long Futex(Scheduler& scheduler, const uint32_t* word, int operation, uint32_t value, const timespec* time) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE) {
    scheduler.Notify(word, /*all=*/value > 1);
    return 0;
  }
  const clockid_t clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  Nanoseconds until = kNever;
  if (time != nullptr) until = Count(*time) + (command == FUTEX_WAIT ? scheduler.now() : -Beginning(clock));
  const int error = scheduler.WaitForChange(*word, value, until);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int Sync(Scheduler& scheduler) {
  scheduler.Sleep(kSync);
  return 0;
}

template <class F>
F* Original(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace belfry::simulation

using belfry::simulation::Beginning;
using belfry::simulation::Count;
using belfry::simulation::Futex;
using belfry::simulation::kNever;
using belfry::simulation::Original;
using belfry::simulation::Scheduler;
using belfry::simulation::Sync;

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
    scheduler->Notify(condition, /*all=*/false);
    return 0;
  }
  static const auto original = Original(&pthread_cond_signal, "pthread_cond_signal");
  return original(condition);
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Scheduler* const scheduler = Scheduler::Current()) {
    scheduler->Notify(condition, /*all=*/true);
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

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  Scheduler* const scheduler = Scheduler::Current();
  if (scheduler != nullptr && number == SYS_futex) {
    return Futex(*scheduler, reinterpret_cast<const uint32_t*>(a[0]), static_cast<int>(a[1]),
                 static_cast<uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]));
  }
  static const auto original = Original(&syscall, "syscall");
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Ranks share the cores of the test.
int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t* set) noexcept {
  if (Scheduler::Current() != nullptr) return 0;
  static const auto original = Original(&sched_setaffinity, "sched_setaffinity");
  return original(thread, size, set);
}

// A process may end, and others go on, before its files are on the disk.
int fsync(int file) {
  if (Scheduler* const scheduler = Scheduler::Current()) return Sync(*scheduler);
  static const auto original = Original(&fsync, "fsync");
  return original(file);
}

int fdatasync(int file) {
  if (Scheduler* const scheduler = Scheduler::Current()) return Sync(*scheduler);
  static const auto original = Original(&fdatasync, "fdatasync");
  return original(file);
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

namespace absl {
ABSL_NAMESPACE_BEGIN

// Abseil's own extrapolates from the processor's counter of cycles.
Time Now() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return TimeFromTimespec(time);
}

ABSL_NAMESPACE_END
}  // namespace absl
