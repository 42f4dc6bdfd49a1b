// Preloaded, moves the wall clock an hour forward and back, again and again. Other clocks keep going.
#include <dlfcn.h>
#include <sys/time.h>

#include <ctime>

namespace {

constexpr int kHour = 3600;
constexpr long kPeriod = 30'000'000;  // ns between two jumps

template <class Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int RealTime(clockid_t clock, timespec* time) {
  static const auto next = Next<int (*)(clockid_t, timespec*)>("clock_gettime");
  return next(clock, time);
}

time_t Shift() {
  timespec steady{};
  RealTime(CLOCK_MONOTONIC, &steady);
  return (steady.tv_sec * (1'000'000'000 / kPeriod) + steady.tv_nsec / kPeriod) % 2 == 0 ? kHour : -kHour;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = RealTime(clock, time);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += Shift();
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}
}
