// The options of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/io/checkpoint_directory.h"
#include "models/towers/replicate_towers.h"
#include "trainers/callbacks/callback.h"
#include "trainers/callbacks/evaluation.h"
#include "trainers/callbacks/step_tracer.h"
#include "trainers/loop/planned_step.h"

namespace belfry::trainers {

// Settings that the tasks of a run share, and how long they wait for each other.
struct TaskOptions {
  absl::Duration timeout = absl::Minutes(10);  // outside of steps
  // The session's SessionOptions::timeout, which steps observe by themselves. Between two steps tasks wait for each
  // other no longer either, since one that comes later would fail the next step.
  absl::Duration step_timeout = absl::InfiniteDuration();
  std::vector<std::string> settings = {};  // lines that must be the same in all, besides what the trainer knows
  // Files and folders that the data come from. Task 0 records their digests in the chain of the run (docs/audit.md).
  std::vector<std::string> data_paths = {};
};

// A further training step of a run, such as the generator's of a GAN. It has a name of its own
// (ReplicateOptions::name), and the towers of the Trainer's step.
struct AlternateStep {
  const models::TrainStep* step = nullptr;  // borrowed
  int64_t every = 1;                        // runs after each `every`-th step of the Trainer's, on the same batch
};

// The checkpoint from which a run goes on, or whose weights it begins with; none by default.
struct ResumeOptions {
  // The latest in TrainerOptions::directory, if there is one: restores its variables and moves the input to its place
  // in the data (BatchSource::Resume). All that a run needs to be killed and started again.
  bool latest = false;
  // Instead of that, one by FindCheckpoint; the input must start where it stopped, by data::TakePosition. Tasks other
  // than 0 need its metadata only, and get the variables from task 0.
  const io::Checkpoint* checkpoint = nullptr;
  bool other_data = false;  // the input may start anywhere, as with other examples
  std::string note = {};    // printed when the run resumes: in what it differs from before
  // A run that resumes nothing begins with the weights of this file, folder of checkpoints, or directory of a run, as
  // far as they fit a variable of the model by name and shape (WarmStart). Task 0 reads it. Empty: none.
  std::string init_from = {};
  // A file of the program `audit`, which starts this program again in a directory of its own to repeat some steps of a
  // run. The repeated run stops where the file says, evaluates nothing and prints nothing. Empty: an ordinary run.
  std::string replay = {};
};

struct TrainerOptions {
  // The processes (tasks) of the run, each of which has a Trainer with the same options; borrowed. Null: one. Task 0
  // alone prints, and writes the metrics file and the directory; a signal that any of them notes stops all.
  World* world = nullptr;
  TaskOptions tasks = {};
  int64_t steps = 1000;  // of the whole run: the global step plus the steps that loss scaling skipped
  // Run after the Trainer's own step, in this order. Their losses and metrics are shown and logged as metrics by their
  // names, "generator" and "generator/accuracy". Steps count the Trainer's own; traces and summaries are of it alone.
  std::vector<AlternateStep> alternate_steps = {};
  int64_t log_every = 10;         // steps between lines of the metrics file, and one after the last; 0: none
  std::string metrics_file = {};  // empty: none
  bool quiet = false;             // nothing on standard output
  // The unit that the output counts, "tokens" as in "tokens/s", and how many of it an example has. Empty: examples.
  std::string unit = {};
  int64_t units_per_example = 1;
  // Called every `evaluate_every` steps and after the last, even if no step is left; the result is printed, and
  // its metrics are written to the metrics file as "test_<name>". Null: never.
  std::function<absl::StatusOr<Evaluation>(int64_t step)> evaluate = {};
  // The steps that `evaluate` runs by Session::Run: Evaluator::Steps. They are compiled and given memory with the
  // training's, so that a run without memory for them ends before its first step and not at the first evaluation.
  std::vector<PlannedStep> evaluation_steps = {};
  int64_t evaluate_every = 0;  // 0: only after the last
  int64_t patience = 0;        // evaluations without a better first metric after which the run ends; 0: no limit
  // At its end, or out of patience, the run restores the variables of the best checkpoint in `directory`, by the first
  // metric, unless that is the last step's, and evaluates them once more. Checkpoints stay unchanged, so the run can go
  // on.
  bool restore_best = false;

  // Its folder "checkpoints" receives a checkpoint every `checkpoint_every` steps, with every evaluation, after the
  // last step and when the run is stopped; the directory itself receives TensorBoard's event file. Empty: neither.
  std::string directory = {};
  int64_t checkpoint_every = 1000;  // 0: only the others
  int keep_checkpoints = 5;         // the latest ones; the best is also kept
  ResumeOptions resume = {};
  io::Metadata metadata = {};          // of the model, saved with every checkpoint
  std::vector<Output> summaries = {};  // from models::AddTrainSummaries, for the event file
  int64_t summary_every = 100;         // steps; 0: never

  int64_t check_replicas_every = 0;  // steps between comparisons of the towers' variables; 0: never
  TraceOptions trace = {};
  std::function<int()> stop = {};  // called after each step; a result other than 0 in any task saves and ends the run
  std::vector<Callback*> callbacks = {};  // of the program's own, called in this order after the trainer's; borrowed
};

}  // namespace belfry::trainers
