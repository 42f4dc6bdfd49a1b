// What a person sees of a run.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace belfry::trainers {

// One line on standard output: rewritten in place on a terminal, a new line now and then in a file or a pipe.
// Throughput is the mean over the steps since the last line, with the deviation of the single steps' rates. Not
// thread-safe.
class Progress {
 public:
  // `total`: steps of the whole run; `first`: the step that it begins at.
  Progress(int64_t first, int64_t total, bool quiet);

  // To be called after every step, with how many examples it had.
  void Step(int64_t examples);
  // True if a line is due: with the first step, and then now and then.
  bool Due() const;
  // `note`: what else there is to say, at the end of the line.
  void Show(int64_t step, double loss, double learning_rate, absl::string_view note = "");
  // A line that stays, below or in place of the live one.
  void Print(absl::string_view text);
  // Ends the live line.
  void Finish();

  // Examples per second since the run began, without the first step, which compiles the plan, and without time between
  // Pause and Resume.
  double examples_per_second() const;
  // Time for what is not training (an evaluation).
  void Pause();
  void Resume();

 private:
  const int64_t first_, total_;
  const bool quiet_, terminal_;
  bool live_ = false;  // a line without its end is on the terminal
  absl::Time started_, last_step_, last_shown_, paused_;
  absl::Duration trained_, window_time_;
  int64_t steps_ = 0, examples_ = 0, window_steps_ = 0, window_examples_ = 0;
  double rate_sum_ = 0, rate_squares_ = 0, recent_ = 0;
};

// "1:02:03", "4:05".
std::string ShortDuration(absl::Duration duration);

}  // namespace belfry::trainers
