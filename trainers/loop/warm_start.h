// The beginning of a training with the weights of another one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/session.h"

namespace belfry::trainers {

// Gives the model's variables, in all replicas, the values that tensors of the same name and shape have in `path`: a
// safetensors file, the index (.json) of several, a folder of checkpoints or the directory of a run, whose latest
// is taken. A moving average there stands for its variable. Files of other projects' networks are also read if
// models/weights knows them. Floating-point types may differ. Other variables, optimizers' slots and untrained scalars,
// such as the global step, keep their values. Returns a text that says what was taken, which variables were not, which
// tensors of a model no variable takes, and whether a config.json beside the file is not read: "Weights: 6 variables
// from ...". Errors: those of reading the file; InvalidArgument if it has no trainable variable of the model.
absl::StatusOr<std::string> WarmStart(Session& session, const std::string& path);

}  // namespace belfry::trainers
