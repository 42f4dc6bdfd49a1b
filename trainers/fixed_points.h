// Linear regression of seven fixed points on one device, in a loop of its own: the smallest program with checkpoints.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/collective/world.h"
#include "trainers/flags/program_flags.h"

namespace belfry::trainers {

struct FixedPointsOptions {
  int64_t steps = 100'000;
  std::string device = {};  // "/cpu:1"; empty: the only one of --devices
  double learning_rate = 0.01;
  int64_t log_every = -1;  // steps between lines of the output and the metrics file; -1: 100, and few of the output
};

// Fits y = w x + b and prints loss, w and b. All else is as `flags` say. Returns the signal that
// ended the run, or 0. Errors: InvalidArgument for several processes, or several devices without a choice; those of the
// session, and of writing files; Aborted if the loss is not finite.
absl::StatusOr<int> FitFixedPoints(const ProgramFlags& flags, World& world, const FixedPointsOptions& options);

}  // namespace belfry::trainers
