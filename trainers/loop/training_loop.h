// The training loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/data/batch_source.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/callbacks/callback.h"
#include "trainers/loop/alternate_steps.h"
#include "trainers/loop/loop_timer.h"
#include "trainers/loop/run_checkpoints.h"
#include "trainers/loop/step_table.h"
#include "trainers/loop/task_sync.h"
#include "trainers/loop/trainer_options.h"

namespace belfry::trainers {

// Callbacks that are called before those of TrainerOptions::callbacks, as the log is, which writes summaries, and after
// them.
struct OwnCallbacks {
  std::vector<std::shared_ptr<Callback>> first, last;
};
// Makes them when a run starts.
using MakeOwnCallbacks = OwnCallbacks (*)(const TrainerOptions& options, const TrainingState& state);

// Feeds batches to a training step, and to options.alternate_steps, for options.steps steps, with evaluations and
// checkpoints. What shows and records the run are callbacks: see Trainer (trainers/program/trainer.h). Borrows its
// arguments. Not thread-safe.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, const models::TrainStep& step, data::BatchSource& input, TrainerOptions options,
               MakeOwnCallbacks make_own);
  ~TrainingLoop();

  // Restores options.resume.checkpoint, or initializes the variables without a value, prepares all steps of the run, or
  // of all BatchSource::shapes, then trains. Errors: InvalidArgument for negative options, a
  // trace after the last step, metrics without a name of their own, or a checkpoint of another model;
  // FailedPrecondition if the input does not start where options.resume.checkpoint stopped, or if a run that resumes
  // nothing has nothing to train, because the global step, which counts the steps of all TrainSteps in the graph, is
  // already at options.steps; ResourceExhausted, before the first step, if the steps do not fit into memory together;
  // errors of the input, of steps and of callbacks; FailedPrecondition if tasks differ in settings, data or model;
  // Aborted, naming the step, if the loss is NaN or infinite (checked at every step; on GPUs, where the host runs
  // ahead, only when it is logged), or if loss scaling skips 100 steps in a row; DataLoss if the variables of towers
  // differ. The error names the last good checkpoint.
  absl::Status Run();
  // The result of options.stop that ended the run; 0 if it ran to its end.
  int stopped() const { return state_.stopped; }
  // Steps done: the global step plus the steps that loss scaling skipped.
  int64_t steps() const { return state_.steps; }
  // Loss of the last logged step; on CPUs, of the last step.
  double loss() const { return state_.results.loss; }
  // The last evaluation; with restore_best, of the restored variables.
  const Evaluation& evaluation() const { return state_.evaluation; }
  // The best evaluation, by the first metric, of this run and those that it continues.
  const BestEvaluation& best() const { return state_.best; }
  // Throughput of Run, excluding its first step and evaluations.
  double examples_per_second() const { return timer_.examples_per_second(); }

 private:
  // The beginning of a run, in training_loop_start.cc.
  absl::Status CheckOptions() const;
  absl::Status CheckTasks() const;
  absl::Status ReadSteps();
  absl::Status StartCallbacks();
  absl::Status FindLatest();
  absl::Status Start();
  std::vector<std::pair<data::BatchShape, bool>> StepsToCome() const;
  absl::Status PrepareSteps();

  absl::Status Train();
  absl::Status MakeUp();
  absl::Status Loop();
  absl::Status RunStep(data::Batch batch);
  absl::Status Record();
  absl::Status Evaluate();
  absl::Status AgreeOnEnd();
  absl::Status Save(bool alone = false);
  absl::Status RecordWritten();
  absl::Status Finish(absl::Status status);
  absl::Status Conclude();

  // Calls a method of all callbacks in their order, up to the first error.
  absl::Status Notify(absl::Status (Callback::*event)(TrainingState&));
  absl::Status WaitForLastStep();
  bool WantsTrace(int64_t step) const;
  bool WithSummaries(int64_t step) const;
  bool Due(int64_t every) const { return every > 0 && state_.steps % every == 0; }
  bool last() const { return state_.steps == options_.steps; }

  const TrainerOptions options_;
  const MakeOwnCallbacks make_own_;
  data::BatchSource& input_;
  TaskSync tasks_;
  StepTable steps_;
  AlternateSteps others_;
  RunCheckpoints checkpoints_;
  LoopTimer timer_;
  TrainingState state_;
  OwnCallbacks own_;
  std::vector<Callback*> callbacks_;      // the started ones
  std::optional<io::Checkpoint> latest_;  // that the run goes on from, with TrainerOptions::resume.latest
  StepTrace trace_;                       // of the last traced step
  data::Position next_;                   // of the data, for a run that resumes after this step
  int64_t evaluated_ = -1;                // the number of steps before the last evaluation
  bool consistent_ = false;               // the variables have their values after state_.steps
  bool ends_ = false;                     // a callback ended the run, and all tasks know it
};

}  // namespace belfry::trainers
