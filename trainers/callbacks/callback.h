// Callbacks: what is attached to a training run, by the trainer itself (progress, log, trace, early stopping) and by a
// program of one's own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/compiler/plan.h"
#include "framework/data/batch_source.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/callbacks/evaluation.h"

namespace belfry::trainers {

// The time that a run has spent in each of its phases since its first step began.
struct PhaseTimes {
  absl::Duration input, step, evaluate, other;
};

// The results of a step. On CPUs every step's are read; on GPUs, where the host runs ahead, only if a callback
// wants them (Callback::WantsResults), so that they may be an earlier step's.
struct StepResults {
  int64_t step = -1;                 // the first is 0; -1: none was read yet
  double loss = 0;                   // the mean over all examples of the step
  double learning_rate = 0;          // of the step
  std::vector<Metric> metrics = {};  // models::TrainStep::metrics
  // With loss scaling: the scale, and the number of skipped steps, in all and in a row.
  double loss_scale = 0;
  int64_t skipped = 0, skipped_in_row = 0;
};

// A run as its callbacks see it: the same object in all calls of a run. Callbacks change it only by Print and End.
//
// In a run of several tasks, each has its own, and runs its own callbacks. These are equal in all tasks: the steps and
// their results (on GPUs, where they were read), the examples, the evaluation, the best one, and how the run ended.
// Times, the path of the checkpoint and the trace are the task's.
struct TrainingState {
  Session& session;  // to read and write variables, and to run other steps, between two of the training
  World& world;      // of this task alone, if there is only one
  const models::TrainStep& train_step;
  const io::Checkpoint* resume = nullptr;  // from which the run goes on; null if it starts afresh
  int64_t total = 0;                       // TrainerOptions::steps

  int64_t steps = 0;     // done so far, also by the runs that this one continues; the last one has number steps - 1
  int64_t examples = 0;  // of the steps of this run
  PhaseTimes times = {};
  StepResults results = {};
  std::vector<Tensor> summaries = {};  // during OnStep: of TrainerOptions::summaries, if the step fetched them
  PreparedStep* prepared = nullptr;    // the last step that ran
  const StepTrace* trace = nullptr;    // during OnStep: of the step, if a callback wanted it
  std::string slowest_task = {};       // TaskReports::slowest

  Evaluation evaluation = {};   // the last one
  bool evaluation_due = false;  // after this step, and not yet done
  BestEvaluation best = {};     // of this run and those that it continues
  std::string checkpoint = {};  // the path of the last one that this run saved; empty in tasks other than 0
  std::string written = {};     // during OnWritten: the path of the checkpoint whose file is complete

  // The times, by SteadyNow, at which whatever the call is about began and ended: the step, the evaluation, the saving.
  // For a step also when reading its batch began.
  absl::Time input_began = {}, began = {}, ended = {};

  int stopped = 0;                                    // in OnEnd: the signal that ended the run; 0: none
  absl::Status status = {};                           // in OnEnd: the error that ended it
  std::optional<std::string> end_reason = {};         // set by End
  std::function<void(absl::string_view)> print = {};  // set by the trainer

  // Prints a line, unless the run is quiet or this is not task 0: every callback gets it by OnMessage. Not in
  // OnMessage.
  void Print(absl::string_view text) const { print(text); }
  // Asks the run to end as if it had come to its last step: it evaluates, saves, says "Stopped after step 120:
  // <reason>.", and Run returns OK. From OnStart, no step is run; from OnEvaluation, it ends after that step; from
  // OnStep too, or in a run of several tasks some steps later. All tasks end after the same step, if any asks. The
  // first reason counts.
  void End(absl::string_view reason) {
    if (!end_reason.has_value()) end_reason.emplace(reason);
  }
};

// Something that is attached to a run: override what is wanted. All methods are called by the thread that calls
// Trainer::Run, between two steps; the time that they take is the run's. For each event the trainer's own callbacks
// come first, then those of TrainerOptions::callbacks in their order, and last the trainer's that record what others
// have written. An error, other than in OnEnd, ends the run as an error of the trainer does, and skips the callbacks
// after this one; the variables are saved, and a run that resumes makes up the evaluation.
class Callback {
 public:
  virtual ~Callback() = default;

  // Once, before the first step: the variables have their values, restored or initial.
  virtual absl::Status OnStart(TrainingState& /*state*/) { return absl::OkStatus(); }
  // When a training step has been prepared, before the first one or before the first for batches of a shape: its
  // purpose, as in "training", and its plan. Not for TrainerOptions::alternate_steps.
  virtual absl::Status OnPrepared(TrainingState& /*state*/, absl::string_view /*name*/, const Plan& /*plan*/) {
    return absl::OkStatus();
  }
  // The batch of a step, before OnStep and, where the host runs ahead, while the step runs. Valid during the call.
  virtual void OnBatch(const data::Batch& /*batch*/) {}
  // After each step, which state.steps already counts.
  virtual absl::Status OnStep(TrainingState& /*state*/) { return absl::OkStatus(); }
  // After each evaluation, which state.evaluation and state.best already hold.
  virtual absl::Status OnEvaluation(TrainingState& /*state*/) { return absl::OkStatus(); }
  // Before a checkpoint is saved, in all tasks; `alone`: in this one only, after an error. An error ends the run, but
  // neither skips other callbacks nor keeps the checkpoint from being saved.
  virtual absl::Status BeforeSave(TrainingState& /*state*/, bool /*alone*/) { return absl::OkStatus(); }
  // When a checkpoint is saved: its variables are copied, and a thread has begun to write the file. In all tasks, if
  // task 0 saves.
  virtual absl::Status OnSave(TrainingState& /*state*/) { return absl::OkStatus(); }
  // When the file of a checkpoint is complete (state.written), before the next OnStep or BeforeSave, or at the end
  // of a run without an error. In task 0.
  virtual absl::Status OnWritten(TrainingState& /*state*/) { return absl::OkStatus(); }
  // Once, if OnStart returned OK: the last checkpoint is written. After an error of the run, or of a callback before
  // this one, state.status has it, and what this returns is dropped.
  virtual absl::Status OnEnd(TrainingState& /*state*/) { return absl::OkStatus(); }
  // A line that the run, or a callback, prints: "Resuming from ...".
  virtual void OnMessage(absl::string_view /*text*/) {}

  // Whether OnStep must see the results of this step, asked before it runs: on GPUs the host then waits for it. Steps
  // count from 0, as StepResults::step; OnStep sees step + 1 steps done.
  virtual bool WantsResults(int64_t /*step*/) { return false; }
  // Whether OnStep must see the step's trace (state.trace), asked before it runs. A traced step takes longer.
  virtual bool WantsTrace(int64_t /*step*/) { return false; }

  // Adds what the callback keeps in checkpoints: keys of its own, such as "plateau.rate". In task 0 when it saves.
  virtual void Store(const TrainingState& /*state*/, io::Metadata& /*metadata*/) const {}
  // The metadata of the checkpoint that the run resumes from, in every task, before OnStart.
  virtual void Load(const io::Metadata& /*metadata*/) {}
};

}  // namespace belfry::trainers
