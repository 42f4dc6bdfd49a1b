// The progress of a run on standard output.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace belfry::trainers {

// A progress line: rewritten in place on a terminal, a new line every 10 s in a file or a pipe. Throughput is the mean
// over the steps since the last line, with the standard deviation of the rates of single steps. Not thread-safe.
class Progress {
 public:
  // `total`: steps of the whole run; `first`: the step at which it starts. `alone`: no launcher lies between this
  // process and the terminal; Open MPI's mpirun gives each process one of its own, whatever becomes of its output.
  Progress(int64_t first, int64_t total, bool quiet, bool alone = true);

  // Records a step of `examples` examples. Call it after every step.
  void Step(int64_t examples);
  // True if a line is due: at the first step, then every 250 ms on a terminal and every 10 s elsewhere.
  bool Due() const;
  // Shows the line; `note` is appended to it.
  void Show(int64_t step, double loss, double learning_rate, absl::string_view note = "");
  // Prints a permanent line, after the live one.
  void Print(absl::string_view text);
  // Ends the live line.
  void Finish();

  // Examples per second of the run so far, excluding the first step, which compiles the plan, and the time between
  // Pause and Resume.
  double examples_per_second() const;
  // Enclose time that is not training, such as an evaluation.
  void Pause();
  void Resume();

 private:
  const int64_t first_, total_;
  const bool quiet_, terminal_;
  bool live_ = false;  // the terminal's last line is not terminated
  absl::Time started_, last_step_, last_shown_, paused_;
  absl::Duration trained_, window_time_;
  int64_t steps_ = 0, examples_ = 0, window_steps_ = 0, window_examples_ = 0;
  double rate_sum_ = 0, rate_squares_ = 0, recent_ = 0;
};

// "1:02:03", "4:05".
std::string ShortDuration(absl::Duration duration);

}  // namespace belfry::trainers
