// The training loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/data/batch_source.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"
#include "trainers/callbacks/evaluation.h"
#include "trainers/callbacks/progress.h"
#include "trainers/callbacks/run_log.h"
#include "trainers/callbacks/step_records.h"
#include "trainers/callbacks/step_tracer.h"
#include "trainers/loop/explain.h"

namespace belfry {
class World;
}  // namespace belfry

namespace belfry::trainers {

class TaskReports;

struct TrainerOptions {
  // The processes (tasks) of the run, each of which has a Trainer with the same options; borrowed. Null: one. Task 0
  // alone prints, and writes the metrics file and the directory; a signal that any of them notes stops all.
  World* world = nullptr;
  absl::Duration task_timeout = absl::Minutes(10);  // for which tasks wait for each other outside of steps
  // The session's SessionOptions::timeout, to which steps keep by themselves. Between two steps tasks wait for each
  // other no longer than that either, since one that comes later would fail the next step.
  absl::Duration step_timeout = absl::InfiniteDuration();
  int64_t steps = 1000;           // of the whole run: the global step plus the steps that loss scaling skipped
  int64_t log_every = 10;         // steps between lines of the metrics file, and one after the last; 0: none
  std::string metrics_file = {};  // empty: none
  bool quiet = false;             // nothing on standard output
  // The unit that the output counts, "tokens" as in "tokens/s", and how many of it an example has. Empty: examples.
  std::string unit = {};
  int64_t units_per_example = 1;
  // Called every `evaluate_every` steps and after the last, even if no step is left to do; the result is printed, and
  // its metrics are written to the metrics file as "test_<name>". Null: never.
  std::function<absl::StatusOr<Evaluation>(int64_t step)> evaluate = {};
  // The steps that `evaluate` runs by Session::Run: Evaluator::Steps. They are compiled and given memory with those of
  // the training, so that a run that lacks memory for them ends before its first step and not at the first evaluation.
  std::vector<PlannedStep> evaluation_steps = {};
  int64_t evaluate_every = 0;  // 0: only after the last
  int64_t patience = 0;        // evaluations without a better first metric after which the run ends; 0: no limit
  // A run that comes to its end, or out of patience, restores the variables of the best checkpoint in `directory`, by
  // the first metric, if that is not of the last step, and evaluates them once more. What is saved stays as it is, so
  // that the run can go on.
  bool restore_best = false;

  // Its folder "checkpoints" receives a checkpoint every `checkpoint_every` steps, with every evaluation, after the
  // last step and when the run is stopped; the directory itself receives TensorBoard's event file. Empty: neither.
  std::string directory = {};
  int64_t checkpoint_every = 1000;         // 0: only the others
  int keep_checkpoints = 5;                // the latest ones; the best is kept as well
  const io::Checkpoint* resume = nullptr;  // to resume from; the input must start where it stopped. Tasks other than 0
                                           // need its metadata only, and get the variables from task 0
  bool other_data = false;                 // when resuming, the input may start anywhere, as with other examples
  std::string resume_note = {};            // printed when the run resumes: in what it differs from before
  io::Metadata metadata = {};              // of the model, saved with every checkpoint
  std::vector<Output> summaries = {};      // from models::AddTrainSummaries, for the event file
  int64_t summary_every = 100;             // steps; 0: never

  int64_t check_replicas_every = 0;  // steps between comparisons of the towers' variables; 0: never
  TraceOptions trace = {};
  std::function<int()> stop = {};  // called after each step; a result other than 0 in any task saves and ends the run
  std::vector<std::string> settings = {};  // lines that must be the same in all tasks, besides what the trainer knows
};

// Aborted, naming the step, if the loss is NaN or infinite.
absl::Status CheckLoss(double loss, int64_t step);

// The folder of checkpoints in the directory of a run.
std::string CheckpointFolder(const std::string& directory);

// Feeds batches to a training step for options.steps steps, with progress, evaluations, metrics and checkpoints.
// Borrows its arguments. Not thread-safe.
class Trainer {
 public:
  Trainer(Session& session, const models::TrainStep& step, data::BatchSource& input, TrainerOptions options);
  ~Trainer();

  // Restores options.resume, or initializes the variables without a value, prepares all steps that the run will come
  // to, then trains. Errors: InvalidArgument for negative options, a trace after the last step, metrics without a name
  // of their own, or a checkpoint of another model; FailedPrecondition if the input does not start where options.resume
  // stopped, or if a run that resumes nothing has nothing to train, since the global step, which counts the steps of
  // all TrainSteps in the graph, is at options.steps already; ResourceExhausted, before the first step, if the steps do
  // not fit into memory together; those of the input and of steps; FailedPrecondition if tasks differ in settings, data
  // or model; Aborted, naming the step, if the loss is NaN or infinite (checked at every step; on GPUs, where the host
  // runs ahead, only when it is logged), or if loss scaling skips 100 steps in a row; DataLoss if the variables of
  // towers differ. The error names the last good checkpoint.
  absl::Status Run() {
    return CatchOutOfMemory("training", [this] { return StartAndLoop(); });
  }
  // The result of options.stop that ended the run; 0 if it ran to its end.
  int stopped() const { return stopped_; }
  // Steps done: the global step plus the steps that loss scaling skipped.
  int64_t steps() const { return steps_; }
  // Loss of the last step that was logged; on CPUs, of the last step.
  double loss() const { return loss_; }
  // The last evaluation; with restore_best, of the variables that were restored.
  const Evaluation& evaluation() const { return evaluation_; }
  // The best evaluation, by the first metric, of this run and those that it continues.
  const BestEvaluation& best() const { return best_; }
  // Throughput of Run, excluding its first step and evaluations.
  double examples_per_second() const { return examples_per_second_; }

 private:
  // The training step, and the same with fetches for the event file.
  struct Prepared {
    std::unique_ptr<PreparedStep> plain, with_summaries;
    std::vector<std::string> collectives;  // of either
  };

  absl::Status CheckOptions() const;
  absl::Status CheckMetricNames() const;
  absl::Status Initialize();
  absl::Status StartAndLoop();
  absl::Status Start();
  absl::Status OpenCheckpoints();
  absl::Status OpenLog();
  std::vector<std::pair<int64_t, bool>> StepsToCome() const;
  absl::Status PrepareSteps();
  absl::Status Loop();
  absl::Status CheckSplit(const data::Batch& batch) const;
  absl::Status Train(const data::Batch& batch);
  bool WithSummaries(int64_t step) const;
  absl::StatusOr<PreparedStep*> StepFor(int64_t examples, bool with_summaries);
  absl::Status RunStep(PreparedStep& step);
  absl::Status ReadResults(PreparedStep& step, bool with_summaries);
  absl::Status ReadLossScale(double scale, int64_t skipped);
  std::vector<Metric> LossParts() const;
  std::vector<ProgressField> Notes() const;
  Figures StepFigures() const;
  absl::Status Log(int64_t step);
  void ExpectRecords();
  absl::Status MakeUpRecords();
  absl::Status AfterStep(int64_t examples);
  absl::Status Evaluate();
  absl::Status Save();
  absl::Status Conclude();
  absl::Status FinishTrace();
  // Waits for the last step: its error, if it has one.
  absl::Status WaitForLastStep() { return last_step_ == nullptr ? absl::OkStatus() : last_step_->Wait(); }
  absl::Status WithLastCheckpoint(const absl::Status& status);
  absl::Status Restore(const io::Checkpoint& checkpoint);
  absl::Status CheckInput() const;
  absl::Status CheckTasks();
  absl::Status CheckReplicas();
  absl::Status CopyMovingAverages();
  // The variables of this task's first tower.
  std::vector<Variable> FirstReplica() const;  // its whole variables
  // Where this task is, for World::RollCall.
  std::string Position() const;
  absl::Time TaskDeadline() const;
  bool Due(int64_t every) const { return every > 0 && steps_ % every == 0; }
  bool out_of_patience() const { return options_.patience > 0 && best_.evaluations_since() >= options_.patience; }
  bool runs_out() const { return stopped_ == 0 && (steps_ >= options_.steps || out_of_patience()); }
  bool last() const { return steps_ == options_.steps; }
  bool scales_loss() const { return step_.loss_scale.valid(); }

  // A part of the loop, for Position.
  enum class Part { kStarting, kReading, kStep, kEvaluating, kOther };
  void Enter(Part part);

  const std::unique_ptr<World> alone_;  // if options_.world is null
  World& world_;
  Session& session_;
  const models::TrainStep& step_;
  data::BatchSource& input_;
  const TrainerOptions options_;
  const std::string unit_, examples_name_;  // "tokens", "images"
  std::vector<double> metrics_;             // of step_.metrics, when loss_ was read
  std::map<int64_t, Prepared> prepared_;    // by the number of examples in the batch, the same in all tasks
  std::vector<Tensor> feeds_;

  std::optional<Progress> progress_;
  std::optional<RunLog> log_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::optional<StepTracer> tracer_;
  std::unique_ptr<TaskReports> reports_;
  int slot_parts_tag_ = 0;  // of exchanges of slots that are divided among tasks
  bool saves_ = false;      // whether task 0 writes checkpoints
  absl::Duration all_input_time_;
  std::atomic<Part> part_{Part::kStarting};
  std::atomic<int64_t> part_step_{0}, part_since_{0};  // since: in ns of SteadyNow
  std::atomic<PreparedStep*> running_{nullptr};
  PreparedStep* last_step_ = nullptr;  // the last one that was run
  data::Position next_;                // of the data, for a run that resumes after this step
  int64_t steps_ = 0, saved_ = -1;
  bool consistent_ = false;  // the variables are those after step steps_ - 1
  bool shown_ = false;       // the progress line shows this step
  bool failed_ = false;
  int stopped_ = 0;
  BestEvaluation best_;
  // The records of the step before steps_: those that are due but not yet written, and its evaluation.
  bool log_due_ = false, evaluation_due_ = false;
  RunLog::Values evaluation_line_;  // empty: none
  std::optional<Metric> metric_;    // of that evaluation
  int64_t evaluated_ = -1;          // the steps that the last evaluation came after
  absl::Time phase_start_;          // of the phase of the loop that is being timed, as of SteadyNow
  // Time by phase since the last line of the metrics file.
  absl::Duration input_time_, step_time_, evaluate_time_, other_time_;
  int64_t examples_ = 0;
  Evaluation evaluation_;
  double loss_ = 0, learning_rate_ = 0, examples_per_second_ = 0;
  // With loss scaling, as of step scale_step_: the scale, and the steps that were skipped: in all, and in a row.
  double loss_scale_ = 0;
  int64_t scale_step_ = 0, skipped_ = 0, skipped_in_row_ = 0;
};

}  // namespace belfry::trainers
