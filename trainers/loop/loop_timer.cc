#include "trainers/loop/loop_timer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/steady_time.h"

namespace belfry::trainers {

absl::Time LoopTimer::Enter(Phase phase, int64_t step) {
  const absl::Time now = SteadyNow();
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::kReading: times_.input += now - start_; break;
    case Phase::kStep: times_.step += now - start_; break;
    case Phase::kEvaluating: times_.evaluate += now - start_; break;
    case Phase::kStarting:
    case Phase::kOther: times_.other += now - start_; break;
  }
  start_ = now;
  step_.store(step, std::memory_order_relaxed);
  since_.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
  phase_.store(phase, std::memory_order_relaxed);
  if (phase == Phase::kStep) running_.store(nullptr, std::memory_order_release);
  return now;
}

void LoopTimer::Restart() {
  start_ = SteadyNow();
  times_ = PhaseTimes();
}

void LoopTimer::CountStep(int64_t examples) {
  last_time_ = times_.input + times_.step + times_.other;
  last_examples_ = examples;
  if (first_examples_ > 0) return;
  first_time_ = last_time_;
  first_examples_ = examples;
}

double LoopTimer::examples_per_second() const {
  const absl::Duration time = last_time_ - first_time_;
  const auto examples = static_cast<double>(last_examples_ - first_examples_);
  return time > absl::ZeroDuration() ? examples / absl::ToDoubleSeconds(time) : 0;
}

std::string LoopTimer::Position() const {
  const Phase phase = phase_.load(std::memory_order_relaxed);
  const absl::Duration time = SteadyNow() - absl::FromUnixNanos(since_.load(std::memory_order_relaxed));
  const std::string when = absl::StrCat("step ", step_.load(std::memory_order_relaxed));
  const std::string since = absl::StrCat(" for ", absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))));
  switch (phase) {
    case Phase::kStarting: return "has been starting";
    case Phase::kReading: return absl::StrCat(when, ": has been reading the next batch", since);
    case Phase::kEvaluating: return absl::StrCat(when, ": has been evaluating", since);
    case Phase::kOther: return absl::StrCat(when, ": has been between two steps", since);
    case Phase::kStep: break;
  }
  const PreparedStep* const running = running_.load(std::memory_order_acquire);
  if (running == nullptr) return absl::StrCat(when, ": has been compiling it", since);
  return absl::StrCat(when, ":\n    ", absl::StrReplaceAll(running->Position(), {{"\n  /", "\n    /"}, {"  /", "/"}}));
}

}  // namespace belfry::trainers
