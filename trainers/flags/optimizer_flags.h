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
// Those of the flags that are not at their defaults. A run cannot be resumed with others, which have other slots.
std::vector<RunSetting> OptimizerSettings();

}  // namespace belfry::trainers
