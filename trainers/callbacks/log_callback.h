// The metrics file and TensorBoard's event file of a run, as a callback.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/io/summary_writer.h"
#include "trainers/callbacks/callback.h"
#include "trainers/callbacks/metrics.h"
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

// Writes a line every `log_every` steps, one for each evaluation, and the summaries. Each line of the metrics file is
// also an event, with a scalar "run/<name>" for each figure. Task 0 alone writes. A checkpoint notes a line that an
// error kept from being written; the run that resumes makes it up (step_records.h).
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
  // Opens the files. Lines of an interrupted run about `start` and later are removed from the metrics file, if it is in
  // the directory, and TensorBoard is told to drop them. It drops whole steps, so the figures of the evaluation at the
  // start, which the metrics file keeps, are written for it once more: `evaluation`.
  absl::Status Open(const RunStart& start, const Figures& evaluation, Session& session);
  absl::Status Write(int64_t step, const Figures& figures);
  absl::Status WriteEvent(int64_t step, const Figures& figures);

  const LogCallbackOptions options_;
  StepRecords resumed_;
  MetricsWriter metrics_;
  std::unique_ptr<io::SummaryWriter> events_;  // null: none
  int64_t total_ = 0;
  int64_t logged_ = -1;     // the last step with a line
  int64_t evaluated_ = -1;  // the steps that the last evaluation came after
  Figures evaluation_line_;
  // As of the last line.
  PhaseTimes times_;
  int64_t examples_ = 0;
};

}  // namespace belfry::trainers
