#include "models/towers/series.h"

#include <string>

#include "absl/numeric/bits.h"
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
  return GetVariable(scope, absl::StrCat(tower.rank.group, "series/", name), shape, ZerosInitializer(),
                     {.dtype = dtype, .trainable = false, .slot_of = beside, .transient = true});
}

// Adds weight * value to the sum that has this name, and returns a view of the sum.
Output AddToSum(const BuiltTower& tower, const Variable& of, const std::string& name, Output value, Output weight,
                int series, std::vector<Output>& added) {
  const Shape shape = value.shape();
  const DType dtype = value.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const auto levels = static_cast<int64_t>(absl::bit_width(static_cast<unsigned>(series)) - 1);
  const Variable sums = Transient(tower, name, shape.Insert(0, levels), dtype, of);
  if (!sums.valid()) return Output();
  const Scope scope = tower.rank.scope.NameScope("series/").ColocateWith(sums.node());
  // The gradient is added where it is made, so that it does not live until the end of the backward pass.
  const Scope backward = scope.InPhase(value.node->phase(), value.node->computed_for());
  added.push_back(ops::AddToSeries(backward, sums, value, weight, tower.result.index));
  const Node* const first =
      scope.InPhase(Phase::kForward)
          .AddNode(OpRole::kFlatSlice, {sums}, {{"begin", int64_t{0}}, {"size", shape.elements()}});
  if (first == nullptr) return Output();
  return ops::Reshape(scope.InPhase(Phase::kForward), Output{first, 0}, shape);
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

}  // namespace

void AddSeriesInputs(BuiltTower& tower) {
  const Scope scope = tower.rank.scope.NameScope("series/");
  tower.result.index = ops::Placeholder(scope.Named("index"), DType::kInt64, {});
  tower.result.first_example = ops::Placeholder(scope.Named("first_example"), DType::kInt64, {});
}

Output IsFirstOfSeries(const BuiltTower& tower) {
  const Scope scope = tower.rank.scope.NameScope("series/");
  return ops::Equal(scope, tower.result.index, ops::ZerosLike(scope, tower.result.index));
}

const Node* AddToSums(const Scope& root, absl::Span<BuiltTower> towers, int series,
                      absl::Span<const Node* const> updates) {
  std::vector<const Node*> nodes(updates.begin(), updates.end());
  for (BuiltTower& tower : towers) {
    std::vector<Output> added;
    for (auto& [k, touched] : tower.touched) {
      const Variable& table = tower.gradients[k].variable;
      const Output one = ops::Const(tower.rank.scope.NameScope("series/"), 1.f);
      touched = AddToSum(tower, table, absl::StrCat("touched/", table.name()), touched, one, series, added);
    }
    for (GradientAndVariable& pair : tower.gradients) {
      if (!pair.gradient.valid()) continue;
      pair.gradient = AddToSum(tower, pair.variable, absl::StrCat("gradients/", pair.variable.name()), pair.gradient,
                               tower.result.weight, series, added);
    }
    const Output figures = Figures(tower);
    if (!root.status().ok()) return nullptr;
    const Variable noted = Transient(tower, "figures", figures.shape().Insert(0, series), DType::kFloat32);
    if (!noted.valid()) return nullptr;
    added.push_back(ops::AssignRow(tower.rank.scope.NameScope("series/").ColocateWith(noted.node()), noted, figures,
                                   tower.result.index));
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
    std::vector<GradientAndVariable> pairs = buckets.Sum(tower.rank, tower.gradients);
    const auto divide = [&](Output& sum, DType dtype) {
      sum = ops::Cast(scope, ops::Div(scope, sum, ops::Cast(scope, total, sum.dtype())), dtype);
    };
    if (parts) pairs = buckets.TakeParts(tower.rank, pairs);
    if (!scope.status().ok()) return averaged;
    for (GradientAndVariable& pair : pairs) {
      if (pair.gradient.valid()) divide(pair.gradient, pair.variable.dtype());
    }
    averaged.push_back(std::move(pairs));
    FindTouchedRows(tower, averaged.back());
  }
  return averaged;
}

}  // namespace belfry::models
