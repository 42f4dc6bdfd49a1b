// Flags for the shared training loop (trainers/loop/trainer.h): checkpoints, summaries, checks and traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/io/checkpoint_directory.h"
#include "trainers/program/training_program.h"

ABSL_DECLARE_FLAG(std::string, resume);
ABSL_DECLARE_FLAG(int64_t, checkpoint_every);
ABSL_DECLARE_FLAG(int, keep_checkpoints);

namespace belfry::trainers {

// TrainerOptions::metadata that records the program and the settings.
io::Metadata RecordSettings(absl::Span<const RunSetting> settings);
// For ResumeOptions::note: a table of the settings that differ from those in the metadata; empty if none does.
std::string ChangedSettings(const io::Metadata& metadata, absl::Span<const RunSetting> settings);

// The checkpoint in --train_dir to resume from, as --resume says; nullopt to start afresh. FailedPrecondition if a
// fixed setting differs from that of its run or was not recorded, as by another program, or if there is one and
// --resume=never; NotFound if there is none and --resume=always.
absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(absl::Span<const RunSetting> settings);
// The same in a run of several processes: task 0 looks for it, and the others get its path, step and metadata, but no
// tensors.
absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(absl::Span<const RunSetting> settings, World& world);

// Sets the world, --checkpoint_every, --keep_checkpoints, --summary_every, --check_replicas_every, --trace and
// --train_dir. InvalidArgument names the flag.
absl::Status SetTrainerOptions(TrainerOptions& options, World& world);

// The message of a run that a signal ended after so many steps: what was saved, and how to resume.
std::string StoppedText(int signal, int64_t steps);

}  // namespace belfry::trainers
