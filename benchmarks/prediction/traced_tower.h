// The step of one tower of a model, measured as several processes would run it, with averages of several bucket sizes.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/prediction/step_model.h"
#include "benchmarks/training_run.h"
#include "framework/collective/world_collective.h"

namespace belfry::benchmarks {

struct BucketedStep {
  size_t bucket_bytes = 0;  // models::ReplicateOptions::bucket_bytes
  StepModel model;
};

struct TracedTower {
  std::vector<BucketedStep> steps;  // that of the asked bucket size, then others with other buckets, smallest first
  double alone = 0;                 // seconds of a step of one tower in a plan of its own, which averages nothing
  double compute = 0;               // seconds of the kernels in a step
  double straggling = 0;            // standard deviation of the kernels' time in a step, outliers left out
};

// Compiles the model for two towers on CPUs of options.device, with buckets of all sizes from 64 KiB on, feeds all
// examples to the first tower, and traces steps of it with averages that do nothing: what remains is the computing of
// one tower by the plan of several. The times of its kernels serve for all bucket sizes. Steps of the tower alone are
// timed in turn with the traced ones.
absl::StatusOr<TracedTower> TraceTower(TrainingOptions options);

// Makes the tower of each process of `world` as slow as the slowest one, for which averages wait. All processes must
// call it. Errors: those of World::Exchange.
absl::Status TakeSlowest(World& world, TracedTower& tower);

// Seconds of a step of the model in each process of `world`, with options.batch examples and one tower each: the median
// of `steps` steps. All processes must call it. Errors: also those of World::Exchange.
absl::StatusOr<double> TimeStep(World& world, TrainingOptions options, int steps);

}  // namespace belfry::benchmarks
