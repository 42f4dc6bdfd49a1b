// Linear regression of seven fixed points on one device, in a loop of its own: the smallest program with checkpoints.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/loop/trainer.h"

namespace belfry::trainers {

struct FixedPointsOptions {
  std::string device = {};  // "/cpu:1"
  double learning_rate = 0.01;
  int64_t log_every = -1;     // steps between lines of the output and the metrics file; -1: 100, and few of the output
  bool owns_metrics = false;  // the metrics file is the run's own
  SessionOptions session = {};
  // The steps, the metrics file, the directory, checkpoints, metadata, and the checkpoint to resume from.
  TrainerOptions training = {};
};

// The end of a run: the signal that stopped it, or 0, and the steps done.
struct FixedPointsEnd {
  int stopped = 0;
  int64_t steps = 0;
};

// Fits y = w x + b and prints loss, w and b. Errors: those of the session, and of writing files; Aborted if the loss is
// not finite.
absl::StatusOr<FixedPointsEnd> FitFixedPoints(const DeviceSet& devices, const FixedPointsOptions& options);

}  // namespace belfry::trainers
