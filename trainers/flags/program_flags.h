// The flags that all training programs have: steps, batch and outputs (run_flags.cc); how towers share variables and
// average gradients (replication_flags.cc); checkpoints, summaries, checks and traces (checkpoint_flags.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"
#include "framework/device/device_set.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/flags/device_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

struct ProgramFlags {
  explicit ProgramFlags(Flags& flags);

  Flags& all;
  DeviceFlags device;
  SessionFlags session;
  int64_t steps = -1, batch_size = 128, batch_size_per_tower = 0;
  uint64_t seed = 1;
  absl::Duration max_run_time = absl::InfiniteDuration();
  std::string metrics_file = {};
  std::string variable_update = "replicated", averager = "local";
  int towers = 0, micro_batches = 1;
  models::ReplicateOptions replicate = {};
  std::vector<std::string> frozen_until = {};  // "PATTERN:STEPS"
  std::string resume = "auto", trace = {};
  TrainerOptions training = {};

  // Examples per step over all towers (of all processes): --batch_size, or --batch_size_per_tower for each of them.
  // InvalidArgument unless it is `low` to `high`, or if both flags are set.
  absl::StatusOr<int64_t> GlobalBatchSize(int towers_of_all, int64_t low = 1, int64_t high = 1 << 20) const;
  // InvalidArgument, naming the flag, if the batch that GlobalBatchSize returned exceeds the `examples` of the data,
  // which are called `what`: "training image".
  absl::Status CheckBatchFits(int64_t batch, int64_t examples, absl::string_view what) const;
  // --steps, or `default_steps` if it is -1.
  int64_t StepsOr(int64_t default_steps) const { return steps == -1 ? default_steps : steps; }
  // --metrics_file, or metrics.jsonl in --train_dir; empty if neither is set. Creates --train_dir and opens the file
  // once, so that a path that cannot be written is an error (Unavailable) before any work.
  absl::StatusOr<std::string> PrepareOutputs() const;

  // Options from the flags of the section "Towers" for a process of `world`, which gathers the numbers
  // of towers of all; sets what `options` of a session on `devices` need for --averager, and the default of
  // --step_timeout. InvalidArgument names the flag; an averager that is not available on `devices` or among processes
  // is an error, too. A session with `options` must not outlive `devices`.
  absl::StatusOr<models::ReplicateOptions> Replication(const DeviceSet& devices, World& world,
                                                       SessionOptions& options) const;

  // The options of a Trainer in `world`. InvalidArgument names the flag.
  absl::StatusOr<TrainerOptions> Training(World& world) const;
  // Records the program and the settings in the metadata of `options`, which Training() returned, and finds the
  // checkpoint in --train_dir to resume from, as --resume says; `options` borrow it, with a table of the settings that
  // have changed. None: to start afresh. Tasks other than 0 get its path, step and metadata, but no tensors.
  // FailedPrecondition if a fixed setting differs from that of its run or was not recorded, as by another program, or
  // if there is one and --resume=never; NotFound if there is none and --resume=always.
  absl::Status FindCheckpoint(absl::Span<const RunSetting> settings, TrainerOptions& options,
                              std::optional<io::Checkpoint>& checkpoint) const;
  // The message of a run that a signal ended after this number of steps: what was saved, and how to resume.
  std::string StoppedText(int signal, int64_t done) const;

 private:
  // The rows of the sections, in their sources.
  void AddRun();
  void AddReplication();
  void AddCheckpoints();
  absl::Status SetAverager(const DeviceSet& devices, World& world, const TowersOfWorld& towers_of,
                           SessionOptions& options) const;
  absl::StatusOr<int> TowersInSeries(int devices) const;
  absl::StatusOr<std::vector<models::FrozenUntil>> FrozenUntil() const;
};

// Opens devices and data as the flags say, looks for a checkpoint in --train_dir, and calls RunTraining. Returns the
// signal that ended it, or 0. The settings of the run are the recorded rows of the flags and the program's own.
absl::StatusOr<int> RunTrainingProgram(TrainingProgram& program, ProgramFlags& flags, World& world);

// The main function of a training program: RunTrainingProgram in the world of the flags. Returns the exit status.
int TrainingMain(int argc, char** argv, absl::string_view usage, ProgramFlags& flags, TrainingProgram& program);

}  // namespace belfry::trainers
