#include "trainers/loop/stop_signals.h"

#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "framework/base/check.h"
#include "framework/base/steady_time.h"

namespace belfry::trainers {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGALRM, SIGCONT};

// Global, since a signal handler has no other state.
std::atomic<int> noted_signal{0};
std::atomic<int64_t> went_on_at{0};  // in nanoseconds of SteadyNow(); 0: never
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

// A batch system sends SIGUSR1 to all processes of a job, and a launcher among them passes it on: so it may come twice.
// The alarm may come when the run is stopping already.
void Note(int signal) {
  if (signal == SIGCONT) {
    went_on_at = absl::ToUnixNanos(SteadyNow());
    return;
  }
  int none = 0;
  if (noted_signal.compare_exchange_strong(none, signal) || signal == SIGUSR1 || signal == SIGALRM) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void SetAlarm(absl::Duration after) {
  itimerval timer{};
  if (after != absl::InfiniteDuration()) timer.it_value = absl::ToTimeval(after);
  BELFRY_CHECK(setitimer(ITIMER_REAL, &timer, nullptr) == 0);
}

}  // namespace

StopSignals::StopSignals(absl::Duration limit) : limited_(limit != absl::InfiniteDuration()) {
  noted_signal = 0;
  went_on_at = 0;
  struct sigaction action {};
  action.sa_handler = &Note;
  // Interrupted system calls are restarted: the run polls the signal after its step.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    BELFRY_CHECK(sigaction(kSignals[i], nullptr, &previous_[i]) == 0);
    // Under nohup a run goes on when its terminal is closed.
    if (kSignals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN) continue;
    BELFRY_CHECK(sigaction(kSignals[i], &action, nullptr) == 0);
  }
  // A timer of 0 would never end.
  if (limited_) SetAlarm(std::max(limit, absl::Milliseconds(1)));
}

StopSignals::~StopSignals() {
  if (limited_) SetAlarm(absl::InfiniteDuration());
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

int StopSignals::noted() { return noted_signal.load(); }

absl::Time StopSignals::went_on() {
  const int64_t at = went_on_at.load();
  return at == 0 ? absl::InfinitePast() : absl::FromUnixNanos(at);
}

std::string SignalName(int signal) {
  return signal == SIGINT    ? "SIGINT"
         : signal == SIGTERM ? "SIGTERM"
         : signal == SIGUSR1 ? "SIGUSR1"
         : signal == SIGHUP  ? "SIGHUP"
         : signal == SIGALRM ? "the time limit"
                             : "signal " + std::to_string(signal);
}

}  // namespace belfry::trainers
