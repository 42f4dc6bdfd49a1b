#include "models/towers/replicate_towers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/layers/frozen.h"
#include "models/towers/averaging.h"
#include "models/towers/following.h"
#include "models/towers/series.h"
#include "models/towers/tower_builder.h"
#include "models/towers/tower_updates.h"
#include "ops/state.h"
#include "optim/global_step.h"

namespace belfry::models {
namespace {

absl::Status CheckNumbers(const ReplicateOptions& options, int local, int total) {
  RETURN_IF_ERROR(Check(options));
  if (options.first_tower % options.micro_batches != 0 || total % options.micro_batches != 0) {
    return absl::InvalidArgumentError(absl::StrCat("ReplicateOptions: with ", options.micro_batches,
                                                   " towers in series, first_tower (", options.first_tower,
                                                   ") and towers (", total, ") must be multiples of it"));
  }
  if ((options.micro_batches & (options.micro_batches - 1)) != 0 && total != options.micro_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat("ReplicateOptions::micro_batches is ", options.micro_batches,
                     ", but with several devices the towers of each must be 1, 2, ",
                     "4, 8, ..., so that their gradients can be added up in the same order on any number of devices"));
  }
  if (options.first_tower < 0 || options.first_tower + local > total) {
    return absl::InvalidArgumentError(absl::StrCat("ReplicateOptions: towers ", options.first_tower, " to ",
                                                   options.first_tower + local - 1, " of this process are not among ",
                                                   total, " in all"));
  }
  if (options.variable_update == VariableUpdate::kParameterDevice && total > local) {
    return absl::InvalidArgumentError(
        "Variable update 'parameter_device' keeps all variables in one process; several need 'replicated'");
  }
  return absl::OkStatus();
}

// For each copy of the variables its updates, to which nothing is added yet.
std::vector<TowerUpdates> MakeUpdates(const Scope& root, absl::Span<const BuiltTower> towers,
                                      const ReplicateOptions& options, const optim::LossScale* loss_scale) {
  std::vector<TowerUpdates> updates;
  if (options.variable_update == VariableUpdate::kParameterDevice) {
    const Scope scope = root.NameScope("update/").Device(kParameterDevice);
    updates.emplace_back(scope, towers[0].rank, options, loss_scale);
    return updates;
  }
  for (const BuiltTower& tower : towers) {
    updates.emplace_back(tower.rank.scope.NameScope(""), tower.rank, options, loss_scale);
  }
  return updates;
}

// Adds the updates that the models asked for. One tower's moving averages are enough, and with one copy of the
// variables more would update them twice; synchronised copies must all move to stay alike.
void AddModelUpdates(absl::Span<const BuiltTower> towers, const ReplicateOptions& options,
                     std::vector<const Node*>& updates) {
  const bool all = options.batch_norm == BatchNormPolicy::kSynchronised &&
                   options.variable_update != VariableUpdate::kParameterDevice;
  for (const BuiltTower& tower : towers.subspan(0, all ? towers.size() : 1)) {
    const Scope& scope = tower.result.scope;
    for (const Output& op : scope.graph().GetCollection(kUpdateOps, scope.name())) {
      if (!UpdatesFrozen(scope, *op.node)) updates.push_back(op.node);
    }
  }
}

// Adds what the optimizer does to the statistics that the models' updates move. In a series these have run before.
void FollowStatistics(absl::Span<const BuiltTower> towers, const ReplicateOptions& options,
                      const optim::Optimizer& optimizer, const Scope& scope, std::vector<const Node*>& updates) {
  std::vector<const Node*> moved;
  AddModelUpdates(towers, options, moved);
  // A layer that is called several times updates its statistics as often.
  std::vector<std::pair<const Node*, std::vector<const Node*>>> by_statistic;
  for (const Node* const update : moved) {
    const Node* const first = update->inputs().empty() ? nullptr : update->input(0).node;
    if (first == nullptr || first->op().role != OpRole::kVariable) continue;
    const auto found = std::find_if(by_statistic.begin(), by_statistic.end(),
                                    [&](const auto& statistic) { return statistic.first == first; });
    (found == by_statistic.end() ? by_statistic.emplace_back(first, 0) : *found).second.push_back(update);
  }
  for (const auto& [statistic, own] : by_statistic) {
    const Scope after = options.micro_batches > 1 ? scope : scope.ControlDependencies(own);
    const Output followed = optimizer.FollowStatistic(after, scope.graph().VariableOf(*statistic));
    if (followed.valid()) updates.push_back(followed.node);
  }
}

void CheckStatistics(absl::Span<const BuiltTower> towers, const ReplicateOptions& options,
                     absl::Span<const Follower> followers, int replicas) {
  if (options.variable_update == VariableUpdate::kParameterDevice || replicas == 1) return;
  if (options.batch_norm == BatchNormPolicy::kSynchronised) return;
  std::vector<const Node*> moved;
  AddModelUpdates(towers, options, moved);
  const Scope& first = towers[0].result.scope;
  absl::Status status = CheckFrozenStatistics(first, moved);
  if (status.ok()) status = CheckFollowedStatistics(followers, moved);
  if (!status.ok()) first.Fail(status);
}

// Gives each copy of the variables those that follow others. False after an error.
bool FindFollowers(absl::Span<const BuiltTower> towers, const ReplicateOptions& options,
                   absl::Span<TowerUpdates> updates) {
  for (size_t i = 0; i < updates.size(); ++i) {
    const Scope& scope = towers[i].rank.scope;
    absl::StatusOr<std::vector<Follower>> followers = Followers(scope, options);
    absl::Status status = followers.status();
    if (i == 0 && status.ok()) status = CheckNotTrained(scope.graph(), towers[0].result.variables, *followers);
    if (!status.ok()) scope.Fail(status);
    if (!scope.status().ok()) return false;
    updates[i].SetFollowers(*std::move(followers));
  }
  return true;
}

// The parts of a step with towers in series.
struct SeriesParts {
  Output total_weight;
  std::vector<FormerValue> former;
};

// Sets TrainStep::accumulate, which is null after an error, the loss and the metrics.
SeriesParts AddSeries(const Scope& root, const Scope& loss, absl::Span<BuiltTower> towers,
                      const ReplicateOptions& options, TrainStep& step) {
  SeriesParts parts;
  std::vector<const Node*> nodes;
  AddModelUpdates(towers, options, nodes);
  if (options.loss_scale.has_value()) parts.former = KeepFormerValues(towers, nodes);
  step.accumulate = AddToSums(root, towers, step.micro_batches, nodes);
  if (step.accumulate != nullptr) parts.total_weight = AddSeriesFigures(loss, towers, step.micro_batches, step);
  return parts;
}

// Averages the gradients and adds the updates of every copy of the variables. Returns the nodes that run them.
std::vector<const Node*> AddUpdates(absl::Span<const BuiltTower> towers, const ReplicateOptions& options,
                                    const optim::Optimizer& optimizer, absl::Span<TowerUpdates> updates,
                                    const SeriesParts& sums, TrainStep& step) {
  if (absl::Status status = optimizer.Check(towers[0].result.variables); !status.ok()) {
    towers[0].rank.scope.Fail(status);
    return {};
  }
  const bool alone = static_cast<int>(towers.size()) == step.towers_in_all;
  const GradientBuckets buckets(towers[0].gradients, options.bucket_bytes);
  auto gradients = step.micro_batches > 1 ? AverageSums(towers, buckets, updates[0].sharded(), sums.total_weight)
                                          : AverageGradients(towers, options.variable_update, buckets,
                                                             updates[0].sharded(), updates[0].scope());
  if (!towers[0].rank.scope.status().ok()) return {};
  std::vector<const Node*> nodes;
  for (size_t i = 0; i < updates.size(); ++i) {
    // AddSeriesFigures checks the weights of series, and the collective those of several processes.
    if (options.variable_update == VariableUpdate::kIndependent) {
      updates[i].CheckWeights(towers.subspan(i, 1), absl::StrCat("Tower ", towers[i].rank.number));
    } else if (alone && step.micro_batches == 1) {
      updates[i].CheckWeights(towers, "The step");
    }
    gradients[i] = updates[i].Unscale(std::move(gradients[i]));
    if (i == 0) step.gradients = gradients[0];
    std::vector<Variable> averaged;
    if (i == 0 && options.moving_average > 0) averaged = towers[0].result.variables;
    nodes.push_back(updates[i].Apply(optimizer, std::move(gradients[i]), buckets, averaged));
  }
  if (step.micro_batches == 1) AddModelUpdates(towers, options, nodes);
  FollowStatistics(towers, options, optimizer, updates[0].scope(), nodes);
  const std::vector<const Node*> moved(nodes.begin() + static_cast<int64_t>(updates.size()), nodes.end());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].followers().empty() || nodes[i] == nullptr) continue;
    // A variable may follow a statistic, which is moved by updates other than those by gradients.
    std::vector<const Node*> after = {nodes[i]};
    absl::c_copy_if(moved, std::back_inserter(after),
                    [&](const Node* node) { return updates.size() == 1 || node->tower() == towers[i].rank.number; });
    nodes.push_back(updates[i].Follow(after));
  }
  for (const FormerValue& former : sums.former) nodes.push_back(RestoreIfSkipped(updates[0], former));
  return nodes;
}

// Builds the replicated model and its training step, all but TrainStep::towers.
//
// Invariant of `replicated`: after every step all copies of a variable have the same bits. Copies start alike, because
// initial values are keyed by logical names. Every copy is updated with the same gradients, because an all-reduce gives
// all ranks the same bits, by the same rule, at the same global step. And the decision to skip a step is computed from
// averaged gradients, so all copies decide alike. The cost is one all-reduce of each gradient per step; nothing is ever
// copied from tower 0. Moving averages of batch normalisation are kept by tower 0 only, unless its statistics are
// synchronised.
//
// Apart from rounding and per-tower batch statistics, a step does not depend on the number of towers: gradients and
// losses are weighted by numbers of examples or what losses state, and random ops count examples from the beginning of
// the whole batch, not of the tower's part.
TrainStep Replicate(const Scope& root, const DeviceSet& devices, absl::Span<const data::Field> fields,
                    const TowerFunction& model, const optim::Optimizer& optimizer, const ReplicateOptions& options,
                    std::vector<BuiltTower>& towers) {
  const int series = std::max(options.micro_batches, 1);
  const int local = static_cast<int>(devices.TowerDevices().size()) * series;
  const int total = options.towers == 0 ? local : options.towers;
  if (absl::Status status = CheckNumbers(options, local, total); !status.ok()) {
    root.Fail(status);
    return {};
  }
  TrainStep step{
      .name = options.name, .first_tower = options.first_tower, .towers_in_all = total, .micro_batches = series};
  std::optional<optim::LossScale> loss_scale;
  if (options.loss_scale.has_value()) loss_scale.emplace(*options.loss_scale);
  const optim::LossScale* const scale = loss_scale.has_value() ? &*loss_scale : nullptr;
  towers = AddInputs(root, devices, fields, options, total / series);
  if (!root.status().ok()) return step;
  std::vector<TowerUpdates> updates = MakeUpdates(root, towers, options, scale);
  // Rows, whose number differs from tower to tower, are exchanged within a process only, and not divided.
  const bool averages = options.variable_update != VariableUpdate::kIndependent;
  const ModelOptions model_options{
      .model = model,
      .replicate = options,
      .loss_scale = scale,
      .sparse = optimizer.takes_sparse() ? optim::SparseGradients::kWherePossible : optim::SparseGradients::kNever,
      .dense_rows = averages && (total > local || updates[0].sharded() || series > 1)};
  for (size_t i = 0; i < towers.size(); ++i) {
    BuiltTower& tower = towers[i];
    tower.model_updates = series > 1 ? ConditionInSeries(tower, scale != nullptr) : updates[tower.copy].condition();
    AddModel(model_options, absl::MakeSpan(towers), i);
    if (!root.status().ok()) return step;
  }
  if (!FindFollowers(towers, options, absl::MakeSpan(updates))) return step;
  CheckStatistics(towers, options, updates[0].followers(), total / series);
  // Before the gradients' averages, so that they are not the last thing that a step waits for.
  const Scope loss = root.Device(devices.device(towers[0].result.device).name()).NameScope("loss");
  SeriesParts sums;
  if (series > 1) {
    sums = AddSeries(root, loss, absl::MakeSpan(towers), options, step);
    if (step.accumulate == nullptr) return step;
  } else {
    AddMeanFigures(loss, towers, step);
  }
  const Scope first = updates[0].scope();
  step.global_step = optim::GlobalStep(first);
  if (scale != nullptr) {
    step.loss_scale = scale->Value(first);
    step.skipped_steps = scale->SkippedSteps(first);
  }
  step.learning_rate = optim::LearningRate(first, optimizer.learning_rate());
  const std::vector<const Node*> nodes = AddUpdates(towers, options, optimizer, absl::MakeSpan(updates), sums, step);
  step.update = ops::Group(root.Named("train_op"), nodes);
  step.initialize = InitializeVariables(root);
  return step;
}

}  // namespace

Scope TrainStep::Averaged(OpScope scope) const {
  const auto has_average = [&](const Variable& variable) {
    return optim::ExponentialMovingAverage::AverageOf(scope, variable).valid();
  };
  if (scope.status().ok() && (towers.empty() || absl::c_none_of(towers[0].variables, has_average))) {
    scope.Fail(absl::FailedPreconditionError(
        "TrainStep::Averaged: the step keeps no averages of its weights; set ReplicateOptions::moving_average"));
  }
  return optim::ExponentialMovingAverage::Averaged(towers.empty() ? scope : scope.Replica(towers[0].scope.replica()));
}

TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, absl::Span<const data::Field> fields,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options) {
  if (devices.size() == 0) {
    scope.Fail(absl::InvalidArgumentError("ReplicateTowers needs devices, but the DeviceSet is empty"));
  } else if (model == nullptr) {
    scope.Fail(absl::InvalidArgumentError("ReplicateTowers needs a model function, not null"));
  }
  TrainStep step;
  std::vector<BuiltTower> towers;
  if (scope.status().ok()) {
    ReplicateOptions resolved = options;
    if (resolved.bucket_bytes == 0) resolved.bucket_bytes = DefaultBucketBytes(devices);
    step = Replicate(scope.InTrainStep(options.name), devices, fields, model, optimizer, resolved, towers);
  }
  for (BuiltTower& tower : towers) step.towers.push_back(std::move(tower.result));
  // After an error callers may still index the towers.
  const size_t size = devices.size() == 0 ? 1 : devices.TowerDevices().size();
  while (step.towers.size() < size) step.towers.push_back({.scope = scope});
  return step;
}

TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, const data::BatchSource& input,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options) {
  return ReplicateTowers(scope, devices, input.fields(), model, optimizer, options);
}

}  // namespace belfry::models
