// The flags of trainers that run the shared loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/io/checkpoint_directory.h"
#include "trainers/loop/trainer.h"

ABSL_DECLARE_FLAG(std::string, resume);
ABSL_DECLARE_FLAG(int64_t, checkpoint_every);
ABSL_DECLARE_FLAG(int, keep_checkpoints);
ABSL_DECLARE_FLAG(int64_t, patience);
ABSL_DECLARE_FLAG(bool, explain);

namespace belfry::trainers {

// The checkpoint that --train_dir holds, as --resume says: auto, one if there is one; never, none, and it is an error
// if there is one, since nothing is overwritten; always, one, else an error. None without --train_dir.
// FailedPrecondition if `model` differs from what its run wrote.
absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const io::Metadata& model);

// --checkpoint_every, --keep_checkpoints, --summary_every, --check_replicas_every, --trace, --patience, --train_dir,
// checked; InvalidArgument names the flag.
absl::Status SetTrainerOptions(TrainerOptions& options);

// --memory_limit in bytes.
absl::StatusOr<std::optional<size_t>> MemoryLimit();

// What a run says when a signal has ended it: where it is saved, and how to go on. Its exit status is that of a program
// that the signal killed.
std::string StoppedText(int signal, int64_t steps);

}  // namespace belfry::trainers
