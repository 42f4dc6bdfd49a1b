// Flags that choose the optimizer of a program.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// InvalidArgument unless --optimizer and --lookahead are right.
absl::Status CheckOptimizerFlags();
// Sets the choice's name, `otherwise` by default, and its lookahead.
void TakeOptimizerFlags(absl::string_view otherwise, OptimizerChoice& choice);
// The settings of the flags, with which a run must be resumed.
std::vector<RunSetting> OptimizerSettings();

}  // namespace belfry::trainers
