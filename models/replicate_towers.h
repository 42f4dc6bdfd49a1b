// One tower per device, trained as one model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/prefetcher.h"
#include "framework/device/device_set.h"
#include "framework/graph/scope.h"
#include "models/batch.h"
#include "optim/apply.h"
#include "optim/loss_scale.h"
#include "optim/moving_average.h"
#include "optim/optimizer.h"

namespace belfry::models {

// Where variables live, and who applies gradients to them.
enum class VariableUpdate {
  kReplicated,       // a copy on every device; gradients are all-reduced; every copy applies the same update
  kParameterDevice,  // TensorFlow 1's scheme: one copy on `parameter_device`, which all towers read; gradients are
                     // averaged and applied there
  kIndependent,      // a copy on every device and no averaging: what averaging costs is the difference to this
};
absl::StatusOr<VariableUpdate> ParseVariableUpdate(absl::string_view name);  // "replicated", "parameter_device" ...

// Over which examples a model's batch normalisation takes its statistics.
enum class BatchNormPolicy {
  kPerTower,      // over those of each tower; the moving averages are tower 0's
  kSynchronised,  // over those of all towers, so that N towers compute what one tower computes on the whole batch
};
absl::StatusOr<BatchNormPolicy> ParseBatchNormPolicy(absl::string_view name);  // "per_tower", "synchronised"

struct ReplicateOptions {
  VariableUpdate variable_update = VariableUpdate::kReplicated;
  BatchNormPolicy batch_norm = BatchNormPolicy::kPerTower;
  std::string parameter_device = "/cpu:0";
  // Gradients that are averaged together, in bytes; a bucket starts its way as soon as its last gradient exists.
  size_t bucket_bytes = size_t{1} << 20;
  double clip_global_norm = 0;  // of the averaged gradients; 0: none
  double moving_average = 0;    // decay of an exponential moving average of the weights, kept for tower 0; 0: none
  // For float16, whose range is small. A step that overflows is skipped: no variable changes, those of batch
  // normalisation and the global step included. None: no loss is scaled, no step skipped.
  std::optional<optim::LossScaleOptions> loss_scale;
};

// What examples look like, without the axis of the batch.
struct InputSpec {
  Shape inputs;
  DType inputs_dtype = DType::kFloat32;
  DType labels_dtype = DType::kInt32;
  static InputSpec Of(const data::Prefetcher& prefetcher);
};

// Builds the model on one tower and returns its loss, a float scalar: the mean over the tower's examples, plus whatever
// does not depend on examples (weight decay). Called once per device, with the same variables by logical name each
// time.
using TowerFunction = std::function<absl::StatusOr<Output>(const Scope& tower, const Batch& batch)>;

// What a tower is fed, and what it computes.
struct TrainTower {
  Scope scope;
  int device = 0;   // index into the DeviceSet
  Batch batch;      // placeholders [?, ...] and [?]
  Output examples;  // float32 scalar: how many it was fed
  Output loss;
  std::vector<Variable> variables;  // its trainable ones; the same for all towers with a parameter device
};

// A training step. After an error in building it, Scope::status() says which, and Session::Create too.
struct TrainStep {
  std::vector<TrainTower> towers;
  Output loss;                       // float32 scalar: the mean over all examples of the step
  Output learning_rate;              // float32 scalar, of this step
  Variable global_step;              // int64 scalar: the steps before this one that were not skipped
  Variable loss_scale;               // float32 scalar, of this step; invalid without ReplicateOptions::loss_scale
  Variable skipped_steps;            // int64 scalar: those before this one that were; likewise
  const Node* update = nullptr;      // runs the step
  const Node* initialize = nullptr;  // runs all initializers
  // What tower 0's variables are updated with, last layer first: averaged over the towers, unscaled, before clipping.
  std::vector<optim::GradientAndVariable> gradients;
};

// Replicates `model` into one tower per device of devices.TowerDevices(), each in the name scope "tower_<i>",
// differentiates its loss, averages the gradients and applies them through `optimizer`.
//
// The mean, always: gradients and losses are weighted by the number of examples that each tower is fed, so N towers on
// a batch compute what one tower computes on it, also when the batch does not divide; a tower that is fed no example
// does not count. Dropout and other random ops depend on the step and on the example's place in the whole batch, not on
// towers.
//
// Batch normalisation follows ReplicateOptions::batch_norm. Its updates of moving averages (kUpdateOps) run with the
// step: tower 0's or, if synchronised, every replica's alike; evaluation reads replica 0.
//
// Trained are the variables below the scope's variable path, so several models may be trained in one graph, each in a
// VariableScope of its own. They share the global step, which counts the steps of all; a schedule goes by it.
//
// `independent` averages nothing, so it has no synchronised batch normalisation, and a step in which one of its towers
// is fed no example is an error. So is, in every form, a step that is fed no example at all.
TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, const InputSpec& input, const TowerFunction& model,
                          const optim::Optimizer& optimizer, const ReplicateOptions& options = {});
// The same for the batches of a prefetcher.
TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, const data::Prefetcher& input,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options = {});

}  // namespace belfry::models
