// The metrics file and TensorBoard's event file of a run, as a callback.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainers/callbacks/callback.h"
#include "trainers/callbacks/run_log.h"
#include "trainers/callbacks/step_records.h"

namespace belfry::trainers {

struct LogCallbackOptions {
  std::string metrics_file = {};  // empty: none
  std::string directory = {};     // of the event file; empty: none
  int64_t log_every = 10;         // steps between lines, and one after the last; 0: none
  std::string unit = "examples";  // "examples_per_second"
  int64_t units_per_example = 1;
  std::vector<Output> summaries = {};  // TrainerOptions::summaries
};

// Writes a line every `log_every` steps, one for each evaluation, and the summaries. Task 0 alone writes. A checkpoint
// notes a line that an error kept from being written; the run that resumes makes it up (step_records.h).
class LogCallback final : public Callback {
 public:
  explicit LogCallback(LogCallbackOptions options) : options_(std::move(options)) {}
  // InvalidArgument if a metric of the model has the name of another figure.
  absl::Status OnStart(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEvaluation(TrainingState& state) override;
  bool WantsResults(int64_t step) override { return Due(step); }
  void Store(const TrainingState& state, io::Metadata& metadata) const override;
  void Load(const io::Metadata& metadata) override { resumed_ = StepRecords::Load(metadata); }

 private:
  absl::Status CheckMetricNames(const TrainingState& state) const;
  // True if a line is due for the step.
  bool Due(int64_t step) const;
  // The line about the steps since the last one, without the step.
  Figures StepFigures(const TrainingState& state) const;

  const LogCallbackOptions options_;
  StepRecords resumed_;
  std::optional<RunLog> log_;  // from OnStart on
  int64_t total_ = 0;
  int64_t logged_ = -1;     // the last step with a line
  int64_t evaluated_ = -1;  // the steps that the last evaluation came after
  Figures evaluation_line_;
  // As of the last line.
  PhaseTimes times_;
  int64_t examples_ = 0;
};

}  // namespace belfry::trainers
