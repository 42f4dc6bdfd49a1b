// Data-parallel training: a tower on each device, or several one after the other, trained as one model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/batch_source.h"
#include "framework/device/device_set.h"
#include "framework/graph/scope.h"
#include "models/layers/metrics.h"
#include "models/towers/batch.h"
#include "optim/apply.h"
#include "optim/loss_scale.h"
#include "optim/moving_average.h"
#include "optim/optimizer.h"

namespace belfry::models {

// The placement of variables, and of the updates by gradients.
enum class VariableUpdate {
  kReplicated,       // a copy on every device; gradients are all-reduced; every copy applies the same update
  kParameterDevice,  // TensorFlow 1's scheme: one copy on /cpu:0, which all towers read; gradients are averaged and
                     // applied there
  kIndependent,      // a copy on every device without averaging; the difference in speed is the cost of averaging
};
absl::StatusOr<VariableUpdate> ParseVariableUpdate(absl::string_view name);  // "replicated", "parameter_device" ...

// The examples over which batch normalisation computes its statistics.
enum class BatchNormPolicy {
  kPerTower,      // the tower's own; the moving averages are tower 0's
  kSynchronised,  // the whole batch's, so that N towers compute what one tower would
};
absl::StatusOr<BatchNormPolicy> ParseBatchNormPolicy(absl::string_view name);  // "per_tower", "synchronised"

// Variables of the model that follow others of it: a target network (Mnih et al., 2015; BYOL: Grill et al., 2020).
struct Following {
  // Names as in checkpoints. One `*` in both stands for the same text: "target/*" of "online/*". Or names without any.
  std::string variables = {}, of = {};
  double decay = 0.99;  // in [0, 1): variable = decay * variable + (1 - decay) * other; 0 copies the other
  int64_t every = 1;    // only after the updates whose number, the global step, is a multiple of it
};
// Variables that stay as they are in the first `steps` updates.
struct FrozenUntil {
  std::string variables = {};  // a pattern (optim::MatchesPattern)
  int64_t steps = 0;           // of the global step, so without steps that are skipped; at least 1
};

struct ReplicateOptions {
  // Gives the training step its own global step, schedule and loss scale, for a graph with several steps that train in
  // turn: the variables "<name>/global_step" and "<name>/loss_scale". Empty: it uses the graph's.
  std::string name = {};
  // For one of several processes: the number of its first tower, and the number of towers of all processes. 0: this
  // process has them all. All processes must build the same model.
  int first_tower = 0, towers = 0;
  // The number of towers that each device runs one after the other: gradient accumulation. A power of two, unless one
  // device has all towers. Each device has the next towers by number, so there are `micro_batches` towers for each
  // device. 8 towers on one device, on two, four or eight, and in any number of processes, give the same bits if each
  // device has as many threads. Memory beside one tower's: log2(micro_batches), rounded up, times the gradients. Needs
  // `replicated`, and no synchronised statistics.
  int micro_batches = 1;
  VariableUpdate variable_update = VariableUpdate::kReplicated;
  BatchNormPolicy batch_norm = BatchNormPolicy::kPerTower;
  // Bytes of gradients to average together; a bucket's average starts as soon as its last gradient exists. 0:
  // DefaultBucketBytes of the devices. The same in all processes, so it must not be 0 where these have different kinds
  // of devices.
  size_t bucket_bytes = 0;
  // Divides the optimizer's state among the towers of all processes (ZeRO, stage 1: Rajbhandari et al., 2020): each
  // tower receives its part of the averaged gradients, keeps the slots of that part only, updates that part of the
  // variables, and all gather the parts. As many bytes travel as without, half of them after the backward pass. With
  // averager `local` and rules that treat each element by itself (not LARS, LAMB or Muon), the variables are the
  // same, bit by bit, except that a global norm is added up in another order, in float64: the float32 factor from it
  // differs about once in 10^8 steps. Checkpoints hold whole slots. Needs `replicated`. No effect with one tower.
  bool shard_optimizer = false;
  // Patterns (optim::MatchesPattern) of the names of variables to freeze: they get no gradient, no slots and no moving
  // average, and keep their bytes, also under weight decay. A frozen batch normalisation normalises with its moving
  // averages, as in evaluation, and leaves them as they are. Errors: a pattern that matches no variable of the model;
  // with several devices, averages that another training step of the graph moves by the statistics of one tower only
  // (BatchNormPolicy::kPerTower).
  std::vector<std::string> frozen = {};
  // If not empty, patterns of what is trained: all other variables of the model are frozen as above. Of those that
  // match, the ones that also match `frozen` are.
  std::vector<std::string> trainable = {};
  // Until the global step has its value, trained variables that match keep their bytes, also under weight decay, and so
  // do their slots and counts of updates; from then on they are trained as if the run began. The largest number counts.
  // In both phases their gradients are computed, one that overflows skips the step (loss_scale), and a batch
  // normalisation normalises by the batch and moves its averages, unlike one in `frozen`. clip_global_norm leaves out
  // what is still frozen. A run resumes in either phase, since slots are there from the start. Errors: a pattern that
  // matches no trained variable.
  std::vector<FrozenUntil> frozen_until = {};
  // After all updates of a step, and only if it is not skipped, the variables that match move towards their
  // counterparts, in each replica. They begin as copies of these, unless something else is restored, and are frozen: no
  // gradient trains them, and a batch normalisation whose averages follow normalises with them. The model still states
  // StopGradient where a gradient would flow through them to others. Errors: a pattern that matches no variable of the
  // replica; a counterpart that is missing or has another shape or dtype, or follows itself; a variable that follows
  // two, or is trained, by `trainable` or another step of the graph; and with several devices, statistics that follow
  // those of one tower only (BatchNormPolicy::kPerTower).
  std::vector<Following> follow = {};
  double clip_global_norm = 0;  // global norm to clip the averaged gradients to; 0: no clipping
  // The decay of an exponential moving average of tower 0's weights; 0: none. TrainStep::Averaged reads it.
  double moving_average = 0;
  // Loss scaling, for float16 with its small range. A step that overflows is skipped: no variable changes, not even
  // batch normalisation's or the global step. If unset, no loss is scaled and no step skipped. The model's own
  // updates of variables have the condition from their scope (Scope::OnlyIf). One that the loss reads cannot wait for
  // the gradients: in tower.NoControlDependencies() it runs in every step.
  std::optional<optim::LossScaleOptions> loss_scale = {};
};
// InvalidArgument for options that exclude each other or are out of range; ReplicateTowers checks them.
absl::Status Check(const ReplicateOptions& options);

// Builds the model on one tower and returns its loss, a floating-point scalar: the mean over the tower's examples, or
// one whose weight it states (SetLossWeight in layers/losses.h), plus terms that do not depend on examples (weight
// decay). Called once a device, and must create the same variables (by logical name, in the same order) each time.
using TowerFunction = std::function<absl::StatusOr<Output>(const Scope& tower, const Batch& batch)>;

// The inputs and results of one tower.
struct TrainTower {
  Scope scope;
  int device = 0;   // index into the DeviceSet
  Batch batch;      // feed all its fields
  Output examples;  // float32 scalar: the number of examples fed to it
  // With ReplicateOptions::micro_batches, int64 scalars to feed: which tower of its device's series this is, and the
  // index of its first example in the whole batch.
  Output index, first_example;
  Output weight;  // float32 scalar: the weight of its loss among the towers': `examples`, or as SetLossWeight states
  Output loss;
  std::vector<TrainMetric> metrics;  // this tower's means, in the order of TrainStep::metrics
  std::vector<Variable> variables;   // those that it trains; with a parameter device, the same ones for all towers
};

// The size of buckets on CPUs, and that on GPUs, which is PyTorch's: NCCL takes some 20 us for an average of any size,
// and reaches the bandwidth of NVLink with tens of MiB only.
inline constexpr size_t kBucketBytes = size_t{1} << 20, kBucketBytesOnGpus = size_t{25} << 20;
// kBucketBytesOnGpus if all towers are on GPUs, otherwise kBucketBytes.
size_t DefaultBucketBytes(const DeviceSet& devices);

// A training step. A Trainer runs it; by hand, feed `batch` of every tower and run `update` (Batch::Feeds,
// Session::Run), after `initialize` once. If building it failed, Scope::status() and Session::Create report the error,
// and what is not there is invalid or null.
struct TrainStep {
  std::string name = {};                   // ReplicateOptions::name
  std::vector<TrainTower> towers;          // of this process
  int first_tower = 0, towers_in_all = 0;  // the number of towers[0]; the count of all processes' towers
  // With towers in series, each of `towers` is run `micro_batches` times a step by `accumulate`, with the batches of
  // towers first_tower + i * micro_batches + index; then `update`, which reads no batch and gives `loss` and `metrics`.
  int micro_batches = 1;
  const Node* accumulate = nullptr;
  Output loss;  // float32 scalar: the mean over the towers, by their weights
  // The towers' kMetrics (layers/metrics.h), unless they are the whole loss. A Trainer fetches them with each step,
  // shows them and hands them to callbacks; before it is made, a program may append float32 scalars of its own, such as
  // the norm of `gradients` by ops::GlobalNorm. In a run of several tasks these must be equal in all.
  std::vector<TrainMetric> metrics;
  Output learning_rate;              // float32 scalar: this step's rate; may be fed, for all towers
  Variable global_step;              // int64 scalar: number of earlier steps that were not skipped
  Variable loss_scale;               // float32 scalar: this step's scale; invalid without ReplicateOptions::loss_scale
  Variable skipped_steps;            // int64 scalar: number of earlier skipped steps; invalid in the same
                                     // case
  const Node* update = nullptr;      // runs the step
  const Node* initialize = nullptr;  // runs all initializers
  // The gradients that update the variables of towers[0], last layer first: averaged over the towers and unscaled, but
  // not yet clipped. With a sharded optimizer, of its parts of the variables only.
  std::vector<optim::GradientAndVariable> gradients;

  // The scope for a network over the moving averages of what this step trains, and over the other variables of
  // towers[0], as for an evaluation: Model(step.Averaged(Scope(graph).NameScope("evaluation")), images). It finds
  // variables and makes none. FailedPrecondition, which sticks to the graph, if there are no averages.
  Scope Averaged(OpScope scope) const;
};

// Replicates `model` into one tower per device of devices.TowerDevices(), which ReplicateOptions::micro_batches runs as
// several in turn, each in the name scope "tower_<number>", differentiates its loss, averages the gradients and applies
// them through `optimizer`.
//
// Gradients, losses and metrics are always means weighted by the number of examples that each tower is fed, or by what
// the model states (SetLossWeight), so N towers compute what one tower would on the whole batch, even if the batch does
// not divide evenly; a tower of weight 0, such as one without examples, does not count. A step in which all weights are
// 0 is an error; on GPUs it is found only after the updates if the weights are stated. Dropout and other random ops
// depend on the step and on the example's position in the whole batch, not on towers.
//
// Batch normalisation follows ReplicateOptions::batch_norm. The updates of its moving averages (kUpdateOps) run with
// the step: tower 0's or, if synchronised, every replica's. Evaluation reads replica 0.
//
// The variables below the scope's variable path are trained, so several models can be trained in one graph, each in its
// own VariableScope or with what the others train frozen. Give each a name (ReplicateOptions), since without they share
// the global step, which then counts the steps of all of them and drives their schedules. A Trainer runs them in turn.
//
// A table [V, ...] that the model reads by ops::Gather alone, as an embedding, has a sparse gradient
// (optim/apply.h) if the optimizer takes them: it updates the rows that any tower touched, in every layout. Towers of
// one process exchange these rows; between processes, and with shard_optimizer, they average the gradient in its dense
// form, with the bits that the rows would have.
//
// Several processes (ReplicateOptions::towers) train one model, each with its own towers, by collectives that span them
// (framework/collective/world_collective.h). The numbers of examples and the losses of all towers are gathered, so the
// step's loss is the same in all processes. A parameter device serves one process only.
//
// `independent` averages nothing, so it excludes synchronised batch normalisation, and a step in which one of its
// towers is fed no example is an error. In every mode, a step that is fed no example at all is an error.
//
// `fields` describe an example in a batch: {{"x", DType::kFloat32, {1}}, ...}.
TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, absl::Span<const data::Field> fields,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options = {});
// For the batches of a source.
TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, const data::BatchSource& input,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options = {});

}  // namespace belfry::models
