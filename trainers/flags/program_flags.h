// The flags that all training programs have, and their order.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/collective/world.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// Opens devices and data as the flags say, looks for a checkpoint in --train_dir, and calls RunTraining: all that a
// training program does after checking flags of its own. Returns the signal that ended it, or 0.
absl::StatusOr<int> RunTrainingProgram(TrainingProgram& program, World& world);

// Checks of flags that several programs have, with the values of theirs. InvalidArgument names the flag.
// `evaluates_during_run`: --evaluate_every is set.
absl::Status CheckEvaluationFlags(bool evaluates_during_run, int64_t patience, bool restore_best);
absl::Status CheckDataThreads(int threads);
// float32, bfloat16 and float16.
absl::Status CheckDType(absl::string_view dtype);

}  // namespace belfry::trainers
