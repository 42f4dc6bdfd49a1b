// The flags that all training programs have, and their order: how towers share variables and average gradients
// (replication_flags.cc); checkpoints, summaries, checks and traces of the training loop (training_flags.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/program/training_program.h"

ABSL_DECLARE_FLAG(std::string, variable_update);
ABSL_DECLARE_FLAG(std::string, averager);

namespace belfry::trainers {

// Opens --devices in a process of `world`. Processes of one machine that may run on the same cores share them by
// number, and get cores of their own. Errors: those of OpenDevices and of World::AllGather.
absl::StatusOr<DeviceSet> OpenDevices(World& world);

// Options from --variable_update, --freeze and --shard_optimizer for a process of `world`, which gathers the numbers of
// towers of all; sets what `session`, which runs on `devices`, needs for --averager, and the default of --step_timeout.
// InvalidArgument names the flag; an averager that is not available on `devices` or among processes is an error, too.
// `session` must not outlive `devices`.
absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags(const DeviceSet& devices, World& world,
                                                                   SessionOptions& session);

// Sets the world, --init_from, --checkpoint_every, --keep_checkpoints, --summary_every, --check_replicas_every,
// --trace,
// --replay and --train_dir. InvalidArgument names the flag.
absl::Status SetTrainerOptions(TrainerOptions& options, World& world);

// Records the program and the settings in the metadata of `options`, and finds the checkpoint in --train_dir to resume
// from, as --resume says; `options`, which SetTrainerOptions has set, borrow it, with a table of the settings that have
// changed. None: to start afresh. Tasks other than 0 get its path, step and metadata, but no tensors.
// FailedPrecondition if a fixed setting differs from that of its run or was not recorded, as by another program, or if
// there is one and --resume=never; NotFound if there is none and --resume=always.
absl::Status FindCheckpoint(absl::Span<const RunSetting> settings, TrainerOptions& options,
                            std::optional<io::Checkpoint>& checkpoint);

// The message of a run that a signal ended after so many steps: what was saved, and how to resume.
std::string StoppedText(int signal, int64_t steps);

// Opens devices and data as the flags say, looks for a checkpoint in --train_dir, and calls RunTraining. Returns the
// signal that ended it, or 0.
absl::StatusOr<int> RunTrainingProgram(TrainingProgram& program, World& world);

// The main function of a training program: RunTrainingProgram in the world of the flags. Returns the exit status.
int TrainingMain(int argc, char** argv, absl::string_view usage, TrainingProgram& program);

// InvalidArgument unless --dtype is float32, bfloat16 or float16.
absl::Status CheckDType(absl::string_view dtype);

}  // namespace belfry::trainers
