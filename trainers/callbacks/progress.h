// The progress of a run on standard output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "trainers/callbacks/evaluation.h"

namespace belfry::trainers {

// The width of the terminal that standard output goes to, which may change at any time; 80 if there is none.
int TerminalColumns();

// One field of a progress line.
struct ProgressField {
  std::string text = {};
  int dispensable = 0;                    // where the line is too long, the largest are left out first; 0: never
  std::vector<std::string> shorter = {};  // other forms of the text, the shortest last
};
// The fields in their order, two spaces between them, in at most `width` columns; cut if even the ones that are never
// left out do not fit. Fields are left out only where the shortest forms of all are too long; the others then have
// forms as long as fit, the least dispensable first.
std::string ProgressLine(absl::Span<const ProgressField> fields, int width);

// The content of a progress line.
struct ProgressValues {
  int64_t step = 0, total = 0;
  double loss = 0, learning_rate = 0;
  double rate = 0;              // units per second; 0: not known yet
  std::optional<double> error;  // standard error of the rate
  std::string unit = "examples";
  std::optional<absl::Duration> left;  // until the end
};
// The fields of the values, with `parts` of the loss after it, and followed by `notes`, of which the last is left out
// last.
std::vector<ProgressField> ProgressFields(const ProgressValues& values, absl::Span<const Metric> parts,
                                          absl::Span<const ProgressField> notes);

struct ProgressOptions {
  int64_t first = 0, total = 0;  // the step at which the run starts, and the steps of the whole run
  bool quiet = false;
  // True if no launcher lies between this process and the terminal; Open MPI's mpirun gives each process one of its
  // own, whatever becomes of its output.
  bool alone = true;
  std::string unit = "examples";  // what Step counts: "images"
};

// A progress line: rewritten in place on a terminal, whose width it keeps to, a new line every 10 s in a file or a
// pipe. Throughput is the mean over the steps since the last line, with its standard error, from the deviation of the
// steps' times. Not thread-safe.
class Progress {
 public:
  explicit Progress(ProgressOptions options);

  // Records a step of `count` units. Call it after every step.
  void Step(int64_t count);
  // True if a line is due: at the first step, then every 250 ms on a terminal and every 10 s elsewhere.
  bool Due() const;
  // Shows the line; `parts` and `notes` as for ProgressFields.
  void Show(int64_t step, double loss, double learning_rate, absl::Span<const Metric> parts = {},
            absl::Span<const ProgressField> notes = {});
  // Prints a permanent line, after the live one.
  void Print(absl::string_view text);
  // Ends the live line.
  void Finish();

  // Leaves that much of the time since the last step out of the rate: what was not training, such as an evaluation.
  void LeaveOut(absl::Duration time) { last_step_ += time; }

 private:
  const ProgressOptions options_;
  const bool terminal_;
  bool live_ = false;                  // the terminal's last line is not terminated
  absl::Time last_step_, last_shown_;  // moments of SteadyNow
  absl::Duration trained_, window_time_;
  int64_t steps_ = 0, window_steps_ = 0, window_count_ = 0;
  double window_squares_ = 0, recent_ = 0;  // squares of the steps' times, in s^2; the last rate
};

}  // namespace belfry::trainers
