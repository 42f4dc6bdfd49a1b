#include "models/towers/tower_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/layers/frozen.h"
#include "models/layers/losses.h"
#include "models/layers/metrics.h"
#include "models/towers/following.h"
#include "models/towers/series.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"
#include "optim/global_step.h"
#include "optim/variable_filter.h"

namespace belfry::models {
namespace {

using optim::GradientAndVariable;

// The batch extent of a tower's inputs, an int64 scalar. Depends on shapes only, so it folds to a constant when a plan
// is compiled.
Output CountExamples(const Scope& scope, Output inputs) {
  const Output rows = ops::Slice(scope, ops::ShapeOf(scope, inputs, DType::kInt64), {0}, {1});
  return ops::Reshape(scope, rows, {});
}

// The number of examples in the towers before towers[i], an int64 scalar.
Output FirstExample(const Scope& scope, absl::Span<const BuiltTower> towers, size_t i) {
  const int number = towers[i].rank.number;
  if (towers[i].result.first_example.valid()) return towers[i].result.first_example;
  if (number == 0) return ops::Const(scope, int64_t{0});
  if (!towers[i].examples_of_all.valid()) return towers[i - 1].rows_until;
  const Output before = ops::Slice(scope, towers[i].examples_of_all, {0}, {number});
  return ops::Sum(scope, ops::Cast(scope, before, DType::kInt64));
}

absl::Status CheckLoss(Output loss, int tower) {
  if (loss.valid() && loss.shape().rank() == 0 && IsFloating(loss.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "The model function must return the tower's loss, a float scalar; for tower ", tower, " it returned ",
      !loss.valid() ? std::string("an invalid Output")
                    : absl::StrCat(loss.name(), ", ", DTypeName(loss.dtype()), " ", loss.shape().ToString())));
}

// The weight of a tower's loss, by SetLossWeight or else its examples.
absl::StatusOr<Output> LossWeight(const ModelOptions& options, const BuiltTower& tower) {
  const std::vector<Output> stated = tower.rank.scope.graph().GetCollection(kLossWeights, tower.rank.scope.name());
  if (stated.empty()) return tower.result.examples;
  if (stated.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("SetLossWeight was called ", stated.size(), " times for tower ",
                                                   tower.rank.number, ", but a tower's loss has one weight"));
  }
  if (options.replicate.batch_norm == BatchNormPolicy::kSynchronised && tower.rank.towers > 1) {
    return absl::InvalidArgumentError(
        "SetLossWeight excludes synchronised batch normalisation, whose gradient weighs towers by their examples; "
        "choose batch norm 'per_tower'");
  }
  return stated[0];
}

// All towers state their weights, or none does.
absl::Status CheckSameWeights(const BuiltTower& first, const BuiltTower& other) {
  const auto states = [](const BuiltTower& tower) { return StatesWeights(absl::MakeConstSpan(&tower, 1)); };
  if (states(first) == states(other)) return absl::OkStatus();
  const int with = (states(first) ? first : other).rank.number, without = (states(first) ? other : first).rank.number;
  return absl::InvalidArgumentError(
      absl::StrCat("The model function must build the same model each time: it called SetLossWeight for tower ", with,
                   ", but not for tower ", without));
}

absl::Status CheckSameMetrics(const BuiltTower& first, const BuiltTower& other) {
  if (other.result.metrics.size() == first.result.metrics.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("The model function must build the same model each time: it added ",
                                                 first.result.metrics.size(), " to the collection '", kMetrics,
                                                 "' for tower ", first.rank.number, ", but ",
                                                 other.result.metrics.size(), " for tower ", other.rank.number));
}

// Averages pair the towers' gradients by position, so every tower must have made the same variables in the same order.
absl::Status CheckSameVariables(const BuiltTower& first, const BuiltTower& other) {
  for (size_t k = 0; k < std::max(first.gradients.size(), other.gradients.size()); ++k) {
    if (k < first.gradients.size() && k < other.gradients.size()) {
      const GradientAndVariable &a = first.gradients[k], &b = other.gradients[k];
      if (a.variable.name() == b.variable.name() && a.variable.shape() == b.variable.shape() &&
          a.variable.dtype() == b.variable.dtype() && a.gradient.valid() == b.gradient.valid() &&
          a.indices.valid() == b.indices.valid()) {
        continue;
      }
    }
    const auto name = [&](const std::vector<GradientAndVariable>& list) {
      return k < list.size() ? absl::StrCat("'", list[k].variable.name(), "' ", list[k].variable.shape().ToString(),
                                            list[k].gradient.valid() ? "" : " without a gradient")
                             : std::string("none");
    };
    return absl::InvalidArgumentError(
        absl::StrCat("The model function must build the same model each time: counted from the last, variable ", k,
                     " of tower ", first.rank.number, " is ", name(first.gradients), ", but that of tower ",
                     other.rank.number, " is ", name(other.gradients)));
  }
  return absl::OkStatus();
}

// Gives sparse gradients their dense form.
void MakeRowsDense(BuiltTower& tower) {
  const Output weight = tower.result.weight;
  for (size_t k = 0; k < tower.gradients.size(); ++k) {
    GradientAndVariable& pair = tower.gradients[k];
    if (!pair.indices.valid()) continue;
    const Scope scope = tower.result.scope.NameScope("dense_rows")
                            .ColocateWith(*pair.gradient.node)
                            .InPhase(pair.gradient.node->phase(), pair.gradient.node->computed_for());
    const ops::DenseGradient dense = ops::DenseRows(scope, {pair.gradient, pair.indices}, pair.variable.shape()[0]);
    pair.gradient = dense.value;
    pair.indices = Output();
    // The rows of a tower of weight 0 do not count.
    const Output counts = ops::Greater(scope, weight, ops::ZerosLike(scope, weight));
    tower.touched[k] = ops::Mul(scope, dense.touched, ops::Cast(scope, counts, DType::kFloat32));
  }
}

}  // namespace

std::vector<BuiltTower> AddInputs(const Scope& root, const DeviceSet& devices, absl::Span<const data::Field> fields,
                                  const ReplicateOptions& options, int towers) {
  std::vector<BuiltTower> built;
  for (const int device : devices.TowerDevices()) {
    const int number = options.first_tower / options.micro_batches + static_cast<int>(built.size());
    Scope scope = root.NameScope(absl::StrCat("tower_", number)).InTower(number).Device(devices.device(device).name());
    const bool one_copy = options.variable_update == VariableUpdate::kParameterDevice;
    if (one_copy) {
      const Reuse reuse = built.empty() ? Reuse::kNever : Reuse::kAlways;
      scope = scope.VariableDevice(kParameterDevice).ReuseVariables(reuse);
    } else {
      scope = scope.Replica(number);
    }
    // The same in every process: "tower_0/", or "tower_0_1/" for a second model.
    const std::string group = !built.empty() ? built[0].rank.group
                              : number == 0  ? scope.name()
                                             : root.NameScope("tower_0").name();
    BuiltTower tower{.rank = {.scope = scope, .group = group, .number = number, .towers = towers},
                     .copy = one_copy ? 0 : built.size(),
                     .result = {.scope = scope, .device = device, .batch = Batch(scope, fields)}};
    if (!root.status().ok()) return built;
    tower.rows = CountExamples(scope, tower.result.batch.placeholders()[0]);
    tower.result.examples = ops::Cast(scope, tower.rows, DType::kFloat32);
    if (options.micro_batches > 1) AddSeriesInputs(tower);
    built.push_back(std::move(tower));
  }
  for (BuiltTower& tower : built) {
    if (static_cast<int>(built.size()) == towers || options.micro_batches > 1 || !root.status().ok()) break;
    tower.examples_of_all = GatherScalars(tower.rank, "examples", {tower.result.examples})[0];
  }
  return built;
}

void AddModel(const ModelOptions& options, absl::Span<BuiltTower> towers, size_t i) {
  BuiltTower& tower = towers[i];
  TrainTower& result = tower.result;
  const Scope scope = tower.rank.scope;
  result.scope = scope.RandomCounters(optim::GlobalStep(scope), FirstExample(scope, towers, i));
  if (options.replicate.batch_norm == BatchNormPolicy::kSynchronised) {
    result.scope = result.scope.ShareStatistics({.name = absl::StrCat(tower.rank.group, "batch_norm/"),
                                                 .rank = tower.rank.number,
                                                 .size = tower.rank.towers,
                                                 .examples = result.examples});
  }
  tower.rows_until = i == 0 ? tower.rows : ops::Add(scope, towers[i - 1].rows_until, tower.rows);

  Scope inside = result.scope.WithLocation({});  // the model's ops carry their own lines
  if (tower.model_updates.valid()) inside = inside.OnlyIf(tower.model_updates);
  FreezeVariables(scope, options.replicate.frozen);
  FreezeOthers(scope, options.replicate.trainable);
  FreezeFollowers(scope, options.replicate.follow);
  const absl::StatusOr<Output> loss = options.model(inside, result.batch);
  if (!loss.ok()) return scope.Fail(loss.status());
  if (!scope.status().ok()) return;
  if (absl::Status status = CheckLoss(*loss, tower.rank.number); !status.ok()) return scope.Fail(status);
  result.loss = *loss;
  const absl::StatusOr<Output> weight = LossWeight(options, tower);
  if (!weight.ok()) return scope.Fail(weight.status());
  result.weight = *weight;
  if (absl::Status status = CheckSameWeights(towers[0], tower); !status.ok()) return scope.Fail(status);
  absl::StatusOr<std::vector<TrainMetric>> metrics = TowerMetrics(result.scope);
  if (!metrics.ok()) return scope.Fail(metrics.status());
  result.metrics = *std::move(metrics);
  if (absl::Status status = CheckSameMetrics(towers[0], tower); !status.ok()) return scope.Fail(status);

  if (absl::Status status = CheckFrozen(scope, options.replicate.frozen, options.replicate.trainable); !status.ok()) {
    return scope.Fail(status);
  }
  result.variables = TrainedVariables(scope);
  for (const FrozenUntil& until : options.replicate.frozen_until) {
    const absl::Status status =
        optim::CheckSelects(optim::NameMatches(std::vector<std::string>{until.variables}), result.variables,
                            "ReplicateOptions::frozen_until (--frozen_until), among what is trained");
    if (!status.ok()) return scope.Fail(status);
  }
  const Output descends = options.loss_scale != nullptr ? options.loss_scale->Scale(scope, result.loss) : result.loss;
  tower.gradients = optim::ComputeGradients(result.scope, descends, result.variables, options.sparse);
  // The order in which the backward pass produces them: a bucket of neighbours is then complete early, and its
  // all-reduce overlaps with the rest of the backward pass.
  std::reverse(tower.gradients.begin(), tower.gradients.end());
  if (options.dense_rows) MakeRowsDense(tower);
  if (absl::Status status = CheckSameVariables(towers[0], tower); !status.ok()) scope.Fail(status);
}

}  // namespace belfry::models
