#include "models/towers/series.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/state.h"
#include "ops/training.h"
#include "optim/root_scope.h"

namespace belfry::models {
namespace {

using optim::GradientAndVariable;

// A variable of the tower's device that holds something between the runs of a step.
Variable Transient(const BuiltTower& tower, const std::string& name, const Shape& shape, DType dtype,
                   const Variable& beside = Variable()) {
  const Scope scope = optim::RootScope(tower.rank.scope, tower.rank.number).Device(tower.rank.scope.device());
  return GetVariable(scope, absl::StrCat(tower.rank.group, "series/", name), shape, /*initializer=*/nullptr,
                     {.dtype = dtype, .trainable = false, .slot_of = beside, .transient = true});
}

Scope InSeries(const BuiltTower& tower, const Variable& beside) {
  return tower.rank.scope.NameScope("series/").ColocateWith(beside.node());
}

// A view of the sum that is complete.
Output ViewOfSum(const Scope& scope, const Variable& sums) {
  const Shape shape = sums.shape().Remove(0);
  const Node* const first =
      scope.AddNode(OpRole::kFlatSlice, {sums}, {{"begin", int64_t{0}}, {"size", shape.elements()}});
  return first == nullptr ? Output() : ops::Reshape(scope, Output{first, 0}, shape);
}

// Adds weight * value to the sum that has this name.
Variable AddToSum(const BuiltTower& tower, const Variable& of, const std::string& name, Output value, Output weight,
                  int series, std::vector<Output>& added) {
  const Shape shape = value.shape();
  const DType dtype = value.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Variable sums = Transient(tower, name, shape.Insert(0, ops::SeriesLevels(series)), dtype, of);
  if (!sums.valid()) return sums;
  const Scope scope = InSeries(tower, sums);
  // The gradient is added where it is made, so that it does not live until the end of the backward pass.
  const Scope backward = scope.InPhase(value.node->phase(), value.node->computed_for());
  added.push_back(ops::AddToSeries(backward, sums, value, weight, tower.result.index, series));
  return sums;
}

// The loss, the metrics and the weight of a tower, float32 [F].
Output Figures(const BuiltTower& tower) {
  const Scope scope = tower.rank.scope.NameScope("series/");
  std::vector<Output> figures = {ops::Cast(scope, tower.result.loss, DType::kFloat32)};
  for (const TrainMetric& metric : tower.result.metrics) {
    figures.push_back(ops::Cast(scope, metric.mean, DType::kFloat32));
  }
  figures.push_back(tower.result.weight);
  return ops::Stack(scope, figures);
}

// True in the run of the first tower of each device.
Output IsFirst(const BuiltTower& tower) {
  const Scope scope = tower.rank.scope.NameScope("series/");
  return ops::Equal(scope, tower.result.index, ops::ZerosLike(scope, tower.result.index));
}

// The means of a device that has all towers, where their sums are, so that they need no other memory.
void DivideInPlace(const BuiltTower& tower, std::vector<GradientAndVariable>& pairs, Output total) {
  for (size_t k = 0; k < pairs.size(); ++k) {
    if (!pairs[k].gradient.valid()) continue;
    const Scope scope = InSeries(tower, tower.sums[k]);
    const Output divided = ops::DivideSeries(scope, tower.sums[k], total);
    if (!divided.valid()) return;
    const Output mean = ViewOfSum(scope.ControlDependencies({divided}), tower.sums[k]);
    pairs[k].gradient = ops::Cast(scope, mean, pairs[k].variable.dtype());
  }
}

}  // namespace

void AddSeriesInputs(BuiltTower& tower) {
  const Scope scope = tower.rank.scope.NameScope("series/");
  tower.result.index = ops::Placeholder(scope.Named("index"), DType::kInt64, {});
  tower.result.first_example = ops::Placeholder(scope.Named("first_example"), DType::kInt64, {});
}

Output ConditionInSeries(const BuiltTower& tower, bool may_skip) {
  return may_skip ? ops::Placeholder(tower.rank.scope.NameScope("series/"), DType::kBool, {}) : IsFirst(tower);
}

std::vector<FormerValue> KeepFormerValues(absl::Span<const BuiltTower> towers, absl::Span<const Node* const> updates) {
  std::vector<FormerValue> kept;
  std::vector<Output> copies;
  const BuiltTower& own = towers[0];
  const Scope& scope = own.rank.scope;
  for (const Node* const update : updates) {
    const Node* const updated = update->inputs().empty() ? nullptr : update->input(0).node;
    if (updated == nullptr || updated->op().kind != OpKind::kVariable) {
      scope.Fail(absl::UnimplementedError(
          absl::StrCat("Towers in series with loss scaling cannot undo ", update->name(),
                       " of the collection 'update_ops' in a step that is skipped, since it updates no variable")));
      return kept;
    }
    const Variable variable = scope.graph().VariableOf(*updated);
    const auto same = [&](const FormerValue& former) { return former.variable == variable; };
    if (std::any_of(kept.begin(), kept.end(), same)) continue;
    const Variable former =
        Transient(own, absl::StrCat("former/", variable.name()), variable.shape(), variable.dtype(), variable);
    if (!former.valid()) return kept;
    copies.push_back(ops::Assign(InSeries(own, former).OnlyIf(IsFirst(own)), former, variable));
    kept.push_back({variable, former});
  }
  for (const BuiltTower& tower : towers) {
    const Scope after = tower.rank.scope.NameScope("series/").ControlDependencies(copies);
    scope.graph().Bind(tower.model_updates, ops::Identity(after, IsFirst(tower)));
    copies.clear();  // those of the first tower alone
  }
  return kept;
}

const Node* RestoreIfSkipped(const TowerUpdates& updates, const FormerValue& former) {
  const Scope scope = updates.scope().NoControlDependencies().ColocateWith(former.variable.node());
  const Scope skipped = scope.OnlyIf(ops::LogicalNot(scope, updates.condition()));
  return ops::Assign(skipped.InPhase(Phase::kUpdate, &former.variable.node()), former.variable, former.former).node;
}

const Node* AddToSums(const Scope& root, absl::Span<BuiltTower> towers, int series,
                      absl::Span<const Node* const> updates) {
  std::vector<const Node*> nodes(updates.begin(), updates.end());
  for (BuiltTower& tower : towers) {
    std::vector<Output> added;
    for (auto& [k, touched] : tower.touched) {
      const Variable& table = tower.gradients[k].variable;
      const Output one = ops::Const(tower.rank.scope.NameScope("series/"), 1.f);
      const Variable sums = AddToSum(tower, table, absl::StrCat("touched/", table.name()), touched, one, series, added);
      if (sums.valid()) touched = ViewOfSum(InSeries(tower, sums), sums);
    }
    for (GradientAndVariable& pair : tower.gradients) {
      Variable& sums = tower.sums.emplace_back();
      if (!pair.gradient.valid()) continue;
      sums = AddToSum(tower, pair.variable, absl::StrCat("gradients/", pair.variable.name()), pair.gradient,
                      tower.result.weight, series, added);
    }
    const Output figures = Figures(tower);
    if (!root.status().ok()) return nullptr;
    const Variable noted = Transient(tower, "figures", figures.shape().Insert(0, series), DType::kFloat32);
    if (!noted.valid()) return nullptr;
    added.push_back(ops::AssignRow(InSeries(tower, noted), noted, figures, tower.result.index));
    tower.figures = noted;
    for (const Output& output : added) nodes.push_back(output.node);
  }
  return root.status().ok() ? ops::Group(root.Named("accumulate"), nodes) : nullptr;
}

Output AddSeriesFigures(const Scope& scope, absl::Span<const BuiltTower> towers, int series, TrainStep& step) {
  std::vector<Output> rows;
  Output all;  // [T, F]
  for (const BuiltTower& tower : towers) {
    rows.push_back(tower.figures);
    if (static_cast<int>(towers.size()) == tower.rank.towers) continue;
    // All take part, and the first tower's copy is used.
    const int64_t before = int64_t{tower.rank.number} * series;
    const int64_t after = int64_t{tower.rank.towers - tower.rank.number - 1} * series;
    const Output padded = ops::Pad(tower.rank.averaging(), tower.figures, {{before, after}, {0, 0}});
    const Output sum = SumOfTowers(tower.rank, "figures", padded);
    if (!all.valid()) all = sum;
  }
  if (!all.valid()) all = rows.size() == 1 ? rows[0] : ops::Concat(scope, rows, 0);
  if (!scope.status().ok()) return Output();
  const int64_t count = all.shape()[0], width = all.shape()[1];
  const auto column = [&](int64_t i) {
    return ops::Reshape(scope, ops::Slice(scope, all, {0, i}, {count, 1}), {count});
  };
  const Output weights = column(width - 1);
  step.loss = MeanOfTowers(scope, column(0), weights);
  for (const TrainMetric& metric : towers[0].result.metrics) {
    step.metrics.push_back(
        {metric.name, MeanOfTowers(scope, column(static_cast<int64_t>(step.metrics.size()) + 1), weights)});
  }
  return ops::TotalWeight(scope, weights,
                          StatesWeights(towers)
                              ? "The step has losses of weight 0 alone (SetLossWeight), so its mean "
                                "loss is undefined (0 / 0)"
                              : "The step was fed no examples, so its mean loss is undefined (0 / 0)");
}

std::vector<std::vector<GradientAndVariable>> AverageSums(absl::Span<const BuiltTower> towers,
                                                          const GradientBuckets& buckets, bool parts, Output total) {
  std::vector<std::vector<GradientAndVariable>> averaged;
  for (const BuiltTower& tower : towers) {
    const Scope scope = tower.rank.averaging();
    std::vector<GradientAndVariable>& pairs = averaged.emplace_back(tower.gradients);
    if (tower.rank.towers == 1) {
      DivideInPlace(tower, pairs, total);
    } else {
      for (size_t k = 0; k < pairs.size(); ++k) {
        const Variable& sums = tower.sums[k];
        if (sums.valid()) pairs[k].gradient = ViewOfSum(InSeries(tower, sums), sums);
      }
      pairs = buckets.Sum(tower.rank, std::move(pairs));
      if (parts) pairs = buckets.TakeParts(tower.rank, pairs);
      if (!scope.status().ok()) return averaged;
      for (auto& [sum, variable, indices] : pairs) {
        if (!sum.valid()) continue;
        sum = ops::Cast(scope, ops::Div(scope, sum, ops::Cast(scope, total, sum.dtype())), variable.dtype());
      }
    }
    if (!scope.status().ok()) return averaged;
    FindTouchedRows(tower, averaged.back());
  }
  return averaged;
}

}  // namespace belfry::models
