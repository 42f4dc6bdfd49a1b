#include "trainers/loop/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace belfry::trainers {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(250), kFileInterval = absl::Seconds(10);

}  // namespace

Progress::Progress(int64_t first, int64_t total, bool quiet, bool alone)
    : first_(first),
      total_(total),
      quiet_(quiet),
      terminal_(alone && isatty(STDOUT_FILENO) != 0),
      started_(absl::Now()),
      last_step_(started_),
      last_shown_(started_) {}

void Progress::Step(int64_t examples) {
  const absl::Time now = absl::Now();
  const absl::Duration took = now - last_step_;
  last_step_ = now;
  if (++steps_ == 1) return;
  trained_ += took;
  examples_ += examples;
  window_time_ += took;
  window_examples_ += examples;
  ++window_steps_;
  const double rate = static_cast<double>(examples) / absl::ToDoubleSeconds(took);
  rate_sum_ += rate;
  rate_squares_ += rate * rate;
}

bool Progress::Due() const {
  return steps_ == 0 || absl::Now() - last_shown_ >= (terminal_ ? kTerminalInterval : kFileInterval);
}

double Progress::examples_per_second() const {
  return trained_ > absl::ZeroDuration() ? static_cast<double>(examples_) / absl::ToDoubleSeconds(trained_) : 0;
}

void Progress::Show(int64_t step, double loss, double learning_rate, absl::string_view note) {
  last_shown_ = absl::Now();
  double deviation = 0;
  if (window_steps_ > 0) {
    recent_ = static_cast<double>(window_examples_) / absl::ToDoubleSeconds(window_time_);
    const auto n = static_cast<double>(window_steps_);
    deviation = std::sqrt(std::max(0.0, rate_squares_ / n - (rate_sum_ / n) * (rate_sum_ / n)));
  }
  window_steps_ = window_examples_ = 0;
  window_time_ = absl::ZeroDuration();
  rate_sum_ = rate_squares_ = 0;
  if (quiet_) return;
  const int64_t left = total_ - (first_ + steps_);
  const absl::Duration per_step = steps_ > 1 ? trained_ / (steps_ - 1) : absl::ZeroDuration();
  const std::string text = absl::StrFormat(
      "step %d/%d  loss %.4f  lr %.4g  %.0f +/- %.0f examples/s  %s left%s%s", step, total_, loss, learning_rate,
      recent_, deviation, steps_ > 1 ? ShortDuration(per_step * left) : "?", note.empty() ? "" : "  ", note);
  if (terminal_) {
    std::printf("\r\033[K%s", text.c_str());
    live_ = true;
  } else {
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

void Progress::Print(absl::string_view text) {
  if (quiet_) return;
  Finish();
  std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

void Progress::Finish() {
  if (live_) std::printf("\n");
  live_ = false;
}

void Progress::Pause() { paused_ = absl::Now(); }

void Progress::Resume() { last_step_ += absl::Now() - paused_; }

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds >= 3600) return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

}  // namespace belfry::trainers
