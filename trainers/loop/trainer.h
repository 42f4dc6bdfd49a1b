// The loop that trainers share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/data/prefetcher.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"
#include "trainers/loop/evaluator.h"
#include "trainers/loop/progress.h"
#include "trainers/loop/run_log.h"
#include "trainers/loop/step_tracer.h"

namespace belfry::trainers {

struct TrainerOptions {
  int64_t steps = 1000;      // of the whole run, counted by the global step, and those that loss scaling skips
  int64_t log_every = 10;    // steps between two lines of the metrics file, and one after the last; 0: no lines
  std::string metrics_file;  // empty: none
  bool quiet = false;        // nothing on standard output
  // Called every `evaluate_every` steps and after the last, also if no step is left to do; the result is printed and
  // goes to the metrics file. Null: never.
  std::function<absl::StatusOr<Evaluation>(int64_t step)> evaluate;
  int64_t evaluate_every = 0;  // 0: only after the last
  int64_t patience = 0;        // the run ends after so many evaluations without a better accuracy; 0: it does not

  // A folder "checkpoints" in it gets a checkpoint every `checkpoint_every` steps, with every evaluation, after the
  // last step and when the run is stopped; the folder itself gets TensorBoard's event file. Empty: neither.
  std::string directory;
  int64_t checkpoint_every = 1000;         // 0: not between
  int keep_checkpoints = 5;                // the latest ones, and the best beside them
  const io::Checkpoint* resume = nullptr;  // what the run goes on from; the input must start where it stopped
  io::Metadata metadata;                   // goes into every checkpoint: what the model is
  std::vector<Output> summaries;           // models::AddTrainSummaries; they go to the event file
  int64_t summary_every = 100;             // steps; 0: never

  int64_t check_replicas_every = 0;  // steps between two comparisons of the towers' variables; 0: never
  TraceOptions trace;
  std::function<int()> stop;  // asked after each step: not 0 to save and end the run. Null: never
};

// Aborted, with the step, if the loss is NaN or infinite.
absl::Status CheckLoss(double loss, int64_t step);

// The folder of a run's checkpoints in its directory.
std::string CheckpointFolder(const std::string& directory);

// Feeds batches to a training step until the global step reaches options.steps, and tells a person how it goes.
// Everything is borrowed. One thread at a time.
class Trainer {
 public:
  Trainer(Session& session, const models::TrainStep& step, data::Prefetcher& input, TrainerOptions options);

  // Restores what it resumes from, or else initializes the variables that have no value, then trains. Errors:
  // InvalidArgument for negative options, a trace behind the last step, or a checkpoint of another model; whatever the
  // input or a step reports; Aborted, with the step, if the loss is NaN or infinite (looked at in every step; on GPUs,
  // so that the host stays ahead, only where it is shown), or if loss scaling does nothing but skip steps; DataLoss if
  // towers have drifted apart. An error says which checkpoint is good.
  absl::Status Run();
  // What options.stop returned when it ended the run; 0 if it did not.
  int stopped() const { return stopped_; }
  // Steps done: the global step, and those that loss scaling has skipped.
  int64_t steps() const { return steps_; }
  // Of the last step.
  double loss() const { return loss_; }
  // The last one.
  const Evaluation& evaluation() const { return evaluation_; }
  // Of all of Run, without the first step and evaluations.
  double examples_per_second() const { return examples_per_second_; }

 private:
  using Values = std::vector<std::pair<absl::string_view, double>>;
  // A step that is ready to run, and the same with what the event file gets.
  struct Prepared {
    std::unique_ptr<PreparedStep> plain, with_summaries;
  };

  absl::Status CheckOptions() const;
  absl::Status Initialize();
  absl::Status Start();
  absl::Status OpenCheckpoints();
  absl::Status Loop();
  absl::Status Train(const data::Batch& batch);
  absl::StatusOr<PreparedStep*> StepFor(const data::Batch& batch, bool with_summaries);
  absl::Status RunStep(PreparedStep& step);
  absl::Status ReadFetches(PreparedStep& step, bool with_summaries);
  absl::Status ReadLossScale(PreparedStep& step);
  std::string Note() const;
  absl::Status AfterStep(int64_t examples);
  absl::Status Evaluate();
  absl::Status Save(std::optional<double> metric);
  absl::Status FinishTrace();
  // Waits for the last step, whose variables are then good or known not to be.
  absl::Status AwaitLastStep() { return last_ == nullptr ? absl::OkStatus() : last_->Wait(); }
  absl::Status Annotate(const absl::Status& status);
  bool Due(int64_t every) const { return every > 0 && steps_ % every == 0; }
  bool out_of_patience() const { return options_.patience > 0 && worse_ >= options_.patience; }
  bool last() const { return steps_ == options_.steps; }
  bool scales_loss() const { return step_.loss_scale.valid(); }

  Session& session_;
  const models::TrainStep& step_;
  data::Prefetcher& input_;
  const TrainerOptions options_;
  std::map<std::vector<int64_t>, Prepared> prepared_;  // by examples of each tower
  std::vector<int64_t> counts_;
  std::vector<Tensor> feeds_;

  std::optional<Progress> progress_;
  std::optional<RunLog> log_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::optional<StepTracer> tracer_;
  PreparedStep* last_ = nullptr;  // that was run
  data::Position next_;           // of the data: where a run goes on after this step
  int64_t steps_ = 0, saved_ = -1;
  bool good_ = false;   // the variables are those after step steps_ - 1, and in order
  bool shown_ = false;  // the progress of this step
  int stopped_ = 0;
  double best_ = 0;      // accuracy
  int64_t worse_ = -1;   // evaluations since then; -1: there was none yet
  absl::Time part_end_;  // the end of the last part of the loop
  // Since the last line of the metrics file.
  absl::Duration input_time_, step_time_, evaluate_time_, other_time_;
  int64_t examples_ = 0;
  Evaluation evaluation_;
  double loss_ = 0, learning_rate_ = 0, examples_per_second_ = 0;
  // With loss scaling, as of step scale_read_at_: the scale, and steps before that were skipped: all, and at the end.
  double loss_scale_ = 0;
  int64_t scale_read_at_ = 0, skipped_ = 0, skipped_in_row_ = 0;
};

}  // namespace belfry::trainers
