#include "models/towers/replicate_towers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/graph/gradients.h"
#include "models/layers/metrics.h"
#include "models/towers/averaging.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "optim/apply.h"
#include "optim/clip.h"
#include "optim/global_step.h"

namespace belfry::models {
namespace {

using optim::GradientAndVariable;

// The batch extent of a tower's inputs, an int64 scalar. Depends on shapes only, so it folds to a constant when a plan
// is compiled.
Output CountExamples(const Scope& scope, Output inputs) {
  const Output rows = ops::Slice(scope, ops::ShapeOf(scope, inputs, DType::kInt64), {0}, {1});
  return ops::Reshape(scope, rows, {});
}

// Averages pair the towers' gradients by position, so every tower must have made the same variables in the same order.
absl::Status CheckSameVariables(const std::vector<GradientAndVariable>& first,
                                const std::vector<GradientAndVariable>& other, int first_tower, int tower) {
  for (size_t k = 0; k < std::max(first.size(), other.size()); ++k) {
    const bool both = k < first.size() && k < other.size();
    if (both && first[k].variable.name() == other[k].variable.name() &&
        first[k].variable.shape() == other[k].variable.shape() &&
        first[k].variable.dtype() == other[k].variable.dtype() &&
        first[k].gradient.valid() == other[k].gradient.valid() &&
        first[k].indices.valid() == other[k].indices.valid()) {
      continue;
    }
    const auto name = [&](const std::vector<GradientAndVariable>& list) {
      return k < list.size() ? absl::StrCat("'", list[k].variable.name(), "' ", list[k].variable.shape().ToString(),
                                            list[k].gradient.valid() ? "" : " without a gradient")
                             : std::string("none");
    };
    return absl::InvalidArgumentError(absl::StrCat(
        "The model function must build the same model each time: counted from the last, variable ", k, " of tower ",
        first_tower, " is ", name(first), ", but that of tower ", tower, " is ", name(other)));
  }
  return absl::OkStatus();
}

// Builds the replicated model and its training step.
//
// Invariant of `replicated`: after every step all copies of a variable have the same bits. Copies start alike, because
// initial values are keyed by logical names. Every copy is updated with the same gradients, because an all-reduce gives
// all ranks the same bits, by the same rule, at the same global step. And the decision to skip a step is computed from
// averaged gradients, so all copies decide alike. The cost is one all-reduce of each gradient per step; nothing is ever
// copied from tower 0. Moving averages of batch normalisation are kept by tower 0 only, unless its statistics are
// synchronised.
//
// Apart from rounding and per-tower batch statistics, a step does not depend on the number of towers: gradients and
// losses are weighted by numbers of examples, and random ops count examples from the beginning of the whole batch
// (FirstExample), not of the tower's part.
class Replicator {
 public:
  Replicator(const Scope& root, const DeviceSet& devices, absl::Span<const data::Field> fields,
             const TowerFunction& model, const optim::Optimizer& optimizer, const ReplicateOptions& options)
      : root_(root), devices_(devices), fields_(fields), model_(model), optimizer_(optimizer), options_(options) {
    if (options.loss_scale.has_value()) loss_scale_.emplace(*options.loss_scale);
  }

  TrainStep Run() {
    if (absl::Status status = Check(options_); !status.ok()) root_.Fail(std::move(status));
    const std::vector<int> tower_devices = devices_.TowerDevices();
    local_ = static_cast<int>(tower_devices.size());
    total_ = options_.towers == 0 ? local_ : options_.towers;
    if (options_.first_tower < 0 || options_.first_tower + local_ > total_) {
      root_.Fail(absl::InvalidArgumentError(absl::StrCat("ReplicateOptions: towers ", options_.first_tower, " to ",
                                                         options_.first_tower + local_ - 1,
                                                         " of this process are not among ", total_, " in all")));
    }
    if (one_copy() && total_ > local_) {
      root_.Fail(absl::InvalidArgumentError(
          "Variable update 'parameter_device' keeps all variables in one process; several need 'replicated'"));
    }
    if (!root_.status().ok()) return std::move(step_);
    step_.first_tower = options_.first_tower;
    step_.towers_in_all = total_;
    for (int i = 0; i < local_; ++i) AddInputs(i, tower_devices[i]);
    if (!root_.status().ok()) return std::move(step_);
    if (!alone()) {
      for (int i = 0; i < local_; ++i) {
        examples_of_all_.push_back(GatherScalars(RankOf(i), "examples", {step_.towers[i].examples})[0]);
      }
    }
    for (int i = 0; i < local_; ++i) AddModel(i);
    if (!root_.status().ok()) return std::move(step_);
    // Before the gradients' averages, so that it is not the last thing that a step waits for.
    if (!alone()) GatherFigures();
    step_.global_step = optim::GlobalStep(UpdateScope(0));
    if (loss_scale_.has_value()) {
      step_.loss_scale = loss_scale_->Value(UpdateScope(0));
      step_.skipped_steps = loss_scale_->SkippedSteps(UpdateScope(0));
    }
    step_.learning_rate = optim::LearningRate(UpdateScope(0), optimizer_.learning_rate());
    std::vector<const Node*> updates;
    switch (options_.variable_update) {
      case VariableUpdate::kReplicated: updates = UpdateReplicas(AverageAllReduced()); break;
      case VariableUpdate::kIndependent: updates = UpdateReplicas(gradients_); break;
      case VariableUpdate::kParameterDevice: updates = UpdateReplicas({AverageOnDevice()}); break;
    }
    // One tower's moving averages are enough, and with one copy of the variables more would update them twice;
    // synchronised copies must all move to stay alike.
    for (size_t i = 0; i < step_.towers.size(); ++i) {
      const auto moved = root_.graph().GetCollection(kUpdateOps, step_.towers[i].scope.name());
      for (const Output& op : moved) updates.push_back(UnlessSkipped(*op.node, i));
      if (one_copy() || !synchronised()) break;
    }
    AddMeans();
    step_.update = ops::Group(root_.Named("train_op"), updates);
    step_.initialize = InitializeVariables(root_);
    return std::move(step_);
  }

 private:
  bool synchronised() const { return options_.batch_norm == BatchNormPolicy::kSynchronised; }
  bool sharded() const { return options_.shard_optimizer && total_ > 1; }
  bool one_copy() const { return options_.variable_update == VariableUpdate::kParameterDevice; }

  // The scope for updates of tower i's variables.
  Scope UpdateScope(int i) const {
    if (one_copy()) return root_.NameScope("update/").Device(options_.parameter_device);
    return step_.towers[i].scope.NameScope("");
  }

  // The number of tower i of this process among those of all.
  int Number(int i) const { return options_.first_tower + i; }
  bool alone() const { return total_ == local_; }
  // Rows are exchanged within a process only, and not divided.
  bool sparse() const { return optimizer_.takes_sparse() && alone() && !sharded(); }
  std::vector<Output> Examples() const {
    std::vector<Output> examples;
    for (const TrainTower& tower : step_.towers) examples.push_back(tower.examples);
    return examples;
  }

  void AddInputs(int i, int device) {
    Scope scope =
        root_.NameScope(absl::StrCat("tower_", Number(i))).InTower(Number(i)).Device(devices_.device(device).name());
    if (one_copy()) {
      scope = scope.VariableDevice(options_.parameter_device).ReuseVariables(i == 0 ? Reuse::kNever : Reuse::kAlways);
    } else {
      scope = scope.Replica(Number(i));
    }
    TrainTower tower{.scope = scope, .device = device};
    tower.batch = Batch(scope, fields_);
    if (!root_.status().ok()) return;
    rows_.push_back(CountExamples(scope, tower.batch.placeholders()[0]));
    tower.examples = ops::Cast(scope, rows_.back(), DType::kFloat32);
    // The same in every process: "tower_0/", or "tower_0_1/" for a second model.
    if (i == 0) group_ = Number(0) == 0 ? scope.name() : root_.NameScope("tower_0").name();
    step_.towers.push_back(std::move(tower));
  }

  // The scalars that the trainer reads: the loss, then the metrics.
  static std::vector<Output> Figures(const TrainTower& tower) {
    std::vector<Output> figures = {tower.loss};
    for (const TrainMetric& metric : tower.metrics) figures.push_back(metric.mean);
    return figures;
  }
  // All take part, and tower 0's copy is used.
  void GatherFigures() {
    for (int i = 0; i < local_; ++i) {
      std::vector<Output> all = GatherScalars(RankOf(i), "loss", Figures(step_.towers[i]));
      if (i == 0) figures_of_all_ = std::move(all);
    }
  }
  TowerRank RankOf(int i) const {
    return {.scope = step_.towers[i].scope, .group = group_, .number = Number(i), .towers = total_};
  }

  // The number of examples in the towers before tower i, an int64 scalar.
  Output FirstExample(const Scope& scope, int i) const {
    if (!alone()) {
      if (Number(i) == 0) return ops::Const(scope, int64_t{0});
      const Output before = ops::Slice(scope, examples_of_all_[i], {0}, {Number(i)});
      return ops::Sum(scope, ops::Cast(scope, before, DType::kInt64));
    }
    return before_.valid() ? before_ : ops::Const(scope, int64_t{0});
  }

  void AddModel(int i) {
    if (!root_.status().ok()) return;
    TrainTower& tower = step_.towers[i];
    const Scope scope = tower.scope;
    tower.scope = scope.RandomCounters(optim::GlobalStep(scope), FirstExample(scope, i));
    if (synchronised()) {
      tower.scope = tower.scope.ShareStatistics(
          {.name = absl::StrCat(group_, "batch_norm/"), .rank = Number(i), .size = total_, .examples = tower.examples});
    }
    before_ = before_.valid() ? ops::Add(scope, before_, rows_[i]) : rows_[i];

    absl::StatusOr<Output> loss = model_(tower.scope.WithLocation({}), tower.batch);  // its ops carry their own lines
    if (!loss.ok()) return root_.Fail(loss.status());
    if (!root_.status().ok()) return;
    if (!loss->valid() || loss->shape().rank() != 0 || !IsFloating(loss->dtype())) {
      return root_.Fail(absl::InvalidArgumentError(absl::StrCat(
          "The model function must return the tower's loss, a float scalar; for tower ", Number(i), " it returned ",
          !loss->valid() ? std::string("an invalid Output")
                         : absl::StrCat(loss->name(), ", ", DTypeName(loss->dtype()), " ", loss->shape().ToString()))));
    }
    tower.loss = *loss;
    absl::StatusOr<std::vector<TrainMetric>> metrics = TowerMetrics(tower.scope);
    if (!metrics.ok()) return root_.Fail(metrics.status());
    tower.metrics = *std::move(metrics);
    if (tower.metrics.size() != step_.towers[0].metrics.size()) {
      return root_.Fail(absl::InvalidArgumentError(
          absl::StrCat("The model function must build the same model each time: it added ",
                       step_.towers[0].metrics.size(), " to the collection '", kMetrics, "' for tower ", Number(0),
                       ", but ", tower.metrics.size(), " for tower ", Number(i))));
    }
    tower.variables = optim::TrainableVariables(scope);
    const Output loss_to_descend = loss_scale_.has_value() ? loss_scale_->Scale(scope, tower.loss) : tower.loss;
    std::vector<GradientAndVariable> gradients =
        optim::ComputeGradients(tower.scope, loss_to_descend, tower.variables,
                                sparse() ? optim::SparseGradients::kWherePossible : optim::SparseGradients::kNever);
    // The order in which the backward pass produces them: a bucket of neighbours is then complete early, and its
    // all-reduce overlaps with the rest of the backward pass.
    std::reverse(gradients.begin(), gradients.end());
    if (!gradients_.empty()) {
      if (absl::Status status = CheckSameVariables(gradients_[0], gradients, Number(0), Number(i)); !status.ok())
        return root_.Fail(status);
    }
    gradients_.push_back(std::move(gradients));
  }

  // Every tower's gradients are in the same order, which CheckSameVariables has verified, so its buckets are, too.
  std::vector<std::vector<GradientAndVariable>> AverageAllReduced() {
    buckets_ = GradientBuckets(gradients_[0], options_.bucket_bytes);
    std::vector<std::vector<GradientAndVariable>> averaged;
    for (int i = 0; i < local_; ++i) {
      const Output weight = step_.towers[i].examples;
      averaged.push_back(sharded() ? buckets_.AverageParts(RankOf(i), weight, gradients_[i])
                                   : buckets_.Average(RankOf(i), weight, gradients_[i]));
      AverageRows(step_.towers[i].scope.NameScope("averaging/"), averaged.back());
    }
    return averaged;
  }

  // Replaces the sparse gradients of one tower by the means over all.
  void AverageRows(const Scope& scope, std::vector<GradientAndVariable>& averaged) const {
    for (size_t k = 0; sparse() && k < averaged.size(); ++k) {
      if (!averaged[k].indices.valid()) continue;
      std::vector<GradientAndVariable> towers;
      for (const auto& tower : gradients_) towers.push_back(tower[k]);
      const ops::Gradient mean = MeanOfRows(scope, towers, Examples());
      averaged[k].gradient = mean.value;
      averaged[k].indices = mean.indices;
    }
  }

  // Updates tower i's parts of the variables, gathers those of all towers, and increments the global step.
  const Node* ApplyToParts(const Scope& scope, int i, const std::vector<GradientAndVariable>& parts) {
    const std::vector<Output> updated = optim::ApplyUpdates(scope, optimizer_, parts);
    if (updated.size() != parts.size()) return nullptr;
    std::vector<Output> done = {optim::IncrementGlobalStep(scope.Replica(Number(i)), updated)};
    for (const auto& [variable, value] : buckets_.GatherUpdated(RankOf(i), parts, updated)) {
      const Scope at = UpdateScope(i).InPhase(Phase::kUpdate, &variable.node()).ColocateWith(variable.node());
      done.push_back(ops::Assign(at, variable, value));
    }
    return root_.status().ok() ? ops::Group(scope.Named("train_op"), done) : nullptr;
  }

  // sum(n_i * x_i) / sum(n_i) on the scope's device, in ascending tower order. The values of a tower without examples
  // may be anything, so they are replaced by zeros rather than multiplied by 0.
  Output WeightedMean(const Scope& scope, const std::vector<Output>& values) const {
    if (values.size() == 1) return ops::Identity(scope, values[0]);
    // Numbers of examples are not exact in 16 bits, and products with them overflow.
    const DType wide = values[0].dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    std::vector<Output> terms, counts;
    for (size_t i = 0; i < values.size(); ++i) {
      const Output count = ops::Cast(scope, step_.towers[i].examples, wide);
      const Output empty = ops::Equal(scope, count, ops::ZerosLike(scope, count));
      const Output value = ops::Cast(scope, values[i], wide);
      terms.push_back(ops::Mul(scope, ops::Select(scope, empty, ops::ZerosLike(scope, value), value), count));
      counts.push_back(count);
    }
    const Output sum = ops::AddN(scope, terms), count = ops::AddN(scope, counts);
    return ops::Cast(scope, ops::Div(scope, sum, count), values[0].dtype());
  }

  std::vector<GradientAndVariable> AverageOnDevice() const {
    std::vector<GradientAndVariable> averaged = gradients_[0];
    for (size_t k = 0; k < averaged.size(); ++k) {
      if (!averaged[k].gradient.valid() || averaged[k].indices.valid()) continue;
      std::vector<Output> values;
      for (const auto& tower : gradients_) values.push_back(tower[k].gradient);
      averaged[k].gradient = WeightedMean(UpdateScope(0).NameScope("averaging/"), values);
    }
    AverageRows(UpdateScope(0).NameScope("averaging/"), averaged);
    return averaged;
  }

  std::vector<const Node*> UpdateReplicas(std::vector<std::vector<GradientAndVariable>> gradients) {
    std::vector<const Node*> updates;
    for (size_t i = 0; i < gradients.size(); ++i)
      updates.push_back(Update(static_cast<int>(i), std::move(gradients[i])));
    return updates;
  }

  // Makes a step without any example an error: 0 / 0 is NaN, which CheckNumerics reports. It depends on shapes only, so
  // for a batch with examples it folds away when the plan is compiled. It runs on a CPU, because a GPU would report the
  // error only after the step, when variables have been updated.
  Output CheckExamples(int i) const {
    const Scope scope = UpdateScope(i).Device("/cpu:0");
    const bool alone = options_.variable_update == VariableUpdate::kIndependent;
    std::vector<Output> counts;
    for (size_t t = 0; t < step_.towers.size(); ++t) {
      if (!alone || static_cast<int>(t) == i) counts.push_back(step_.towers[t].examples);
    }
    const Output count = ops::AddN(scope, counts);
    return ops::CheckNumerics(scope, ops::Div(scope, count, count),
                              absl::StrCat(alone ? absl::StrCat("Tower ", Number(i)) : "The step",
                                           " was fed no examples, so its mean loss is undefined (0 / 0)"));
  }

  // Whether the parts of all towers are finite.
  Output FiniteInAll(const Scope& scope, int i, Output finite) const {
    const Output not_finite = ops::Cast(scope, ops::LogicalNot(scope, finite), DType::kFloat32);
    const Output sum = SumOfTowers(RankOf(i), "not_finite", not_finite);
    return sum.valid() ? ops::Equal(scope, sum, ops::ZerosLike(scope, sum)) : Output();
  }

  void Clip(const Scope& scope, int i, std::vector<GradientAndVariable>& gradients) const {
    std::vector<Output> values;
    for (const GradientAndVariable& pair : gradients) values.push_back(pair.gradient);
    if (sharded()) {
      const Output own = ops::GlobalNorm(scope, values, DType::kFloat64);
      const Output norms = GatherScalars(RankOf(i), "norms", {own}, DType::kFloat64)[0];
      const Output norm = ops::GlobalNorm(scope, {norms}, DType::kFloat64);
      for (Output& value : values) value = ops::ClipToNorm(scope, value, norm, options_.clip_global_norm);
    } else {
      values = optim::ClipByGlobalNorm(scope, values, options_.clip_global_norm).gradients;
    }
    for (size_t k = 0; k < values.size(); ++k) gradients[k].gradient = values[k];
  }

  const Node* Update(int i, std::vector<GradientAndVariable> gradients) {
    // Among processes, a mean without examples is an error of the collective.
    const bool check = alone() || options_.variable_update == VariableUpdate::kIndependent;
    Scope scope = check ? UpdateScope(i).ControlDependencies({CheckExamples(i)}) : UpdateScope(i);
    Output scale_moved;
    if (loss_scale_.has_value()) {
      auto [unscaled, finite] = loss_scale_->Unscale(scope, gradients);
      gradients = std::move(unscaled);
      if (sharded()) finite = FiniteInAll(scope, i, finite);
      scale_moved = loss_scale_->Update(scope, finite);
      if (!scale_moved.valid()) return nullptr;
      finite_.push_back(finite);
      scope = scope.OnlyIf(finite);
    }
    if (i == 0) step_.gradients = gradients;
    if (options_.clip_global_norm > 0) Clip(scope, i, gradients);
    if (!root_.status().ok()) return nullptr;
    const Node* applied =
        sharded() ? ApplyToParts(scope, i, gradients) : optim::ApplyGradients(scope, optimizer_, gradients);
    if (i == 0 && options_.moving_average > 0 && applied != nullptr) {
      const optim::ExponentialMovingAverage averages({.decay = options_.moving_average});
      const std::vector<Variable> variables = step_.towers[0].variables;
      applied = averages.Update(scope, variables, {Output{applied, 0}});
    }
    return scale_moved.valid() && applied != nullptr ? ops::Group(scope, {applied, scale_moved.node}) : applied;
  }

  // An update that tower i's model requested before the condition for skipping the step existed. Adds the same node
  // again with that condition, after the conditional forms of the updates that it depends on.
  const Node* UnlessSkipped(const Node& update, size_t i) {
    const std::vector<ArgDef>& inputs = update.op().inputs;
    if (finite_.empty() || inputs.empty() || inputs.back().name != kOnlyIf) return &update;
    const auto now = [&](const Node* node) {
      const auto found = conditional_.find(node);
      return found == conditional_.end() ? node : found->second;
    };
    std::vector<Output> values;
    for (const Output& value : update.inputs()) values.push_back({now(value.node), value.index});
    std::vector<const Node*> controls;
    for (const Node* control : update.control_inputs()) controls.push_back(now(control));
    const Scope where =
        update.tower() < 0 ? root_ : root_.NameScope(update.tower_scope()).InTower(update.tower());  // as it was made
    Scope scope = where.NameScope("")
                      .InPhase(update.phase(), update.computed_for())
                      .Named(update.name())
                      .WithLocation(update.location())
                      .ColocateWith(*update.inputs()[0].node)
                      .ControlDependencies(controls);
    if (values.size() == inputs.size()) {  // The model's own condition.
      scope = scope.OnlyIf(values.back());
      values.pop_back();
    }
    const Node* const copy =
        scope.OnlyIf(finite_[one_copy() ? 0 : i]).AddNode(update.op().name, values, update.attrs());
    return conditional_[&update] = copy == nullptr ? &update : copy;
  }

  void AddMeans() {
    const Scope scope = root_.Device(devices_.device(step_.towers[0].device).name()).NameScope("loss");
    step_.loss = MeanFigure(scope, 0);
    const TrainTower& first = step_.towers[0];
    for (size_t k = 0; k < first.metrics.size(); ++k) {
      step_.metrics.push_back({first.metrics[k].name, MeanFigure(scope, k + 1)});
    }
  }

  // As WeightedMean, from vectors with one element for each tower of all processes, so that the bits do not depend on
  // how the towers are dealt to processes.
  Output MeanFigure(const Scope& scope, size_t k) const {
    std::vector<Output> figures, examples;
    for (const TrainTower& tower : step_.towers) {
      figures.push_back(ops::Cast(scope, Figures(tower)[k], DType::kFloat32));
      examples.push_back(tower.examples);
    }
    if (total_ == 1) return ops::Identity(scope, figures[0]);
    const Output values = alone() ? ops::Stack(scope, figures) : figures_of_all_[k];
    const Output counts = alone() ? ops::Stack(scope, examples) : examples_of_all_[0];
    if (!values.valid() || !counts.valid()) return Output();
    return MeanOfTowers(scope, values, counts);
  }

  const Scope& root_;
  const DeviceSet& devices_;
  const absl::Span<const data::Field> fields_;
  const TowerFunction& model_;
  const optim::Optimizer& optimizer_;
  const ReplicateOptions& options_;
  std::optional<optim::LossScale> loss_scale_;
  TrainStep step_;
  std::string group_;                                        // prefix of the names of this model's collectives
  std::vector<std::vector<GradientAndVariable>> gradients_;  // by tower; last layer first
  GradientBuckets buckets_;
  std::vector<Output> finite_;  // with loss scaling, by copy of the variables: true if this step is not skipped
  HashMap<const Node*, const Node*> conditional_;  // a model's update to its conditional form
  int local_ = 0, total_ = 0;                      // numbers of towers: of this process, and of all
  std::vector<Output> rows_;                       // by tower of this process: its number of examples, int64
  Output before_;                                  // sum of rows_ of the towers whose models are built
  std::vector<Output> figures_of_all_;             // by number in Figures: a vector of it in all towers, float32
  std::vector<Output> examples_of_all_;            // by tower of this process: a vector of all towers' numbers, float32
};

}  // namespace

TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, absl::Span<const data::Field> fields,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options) {
  if (devices.size() == 0) {
    scope.Fail(absl::InvalidArgumentError("ReplicateTowers needs devices, but the DeviceSet is empty"));
  } else if (model == nullptr) {
    scope.Fail(absl::InvalidArgumentError("ReplicateTowers needs a model function, not null"));
  }
  TrainStep step =
      scope.status().ok() ? Replicator(scope, devices, fields, model, optimizer, options).Run() : TrainStep();
  // After an error callers may still index the towers.
  const size_t towers = devices.size() == 0 ? 1 : devices.TowerDevices().size();
  while (step.towers.size() < towers) step.towers.push_back({.scope = scope});
  return step;
}

TrainStep ReplicateTowers(OpScope scope, const DeviceSet& devices, const data::BatchSource& input,
                          const TowerFunction& model, const optim::Optimizer& optimizer,
                          const ReplicateOptions& options) {
  return ReplicateTowers(scope, devices, input.fields(), model, optimizer, options);
}

}  // namespace belfry::models
