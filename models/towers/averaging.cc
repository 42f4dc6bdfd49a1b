#include "models/towers/averaging.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/training.h"

namespace belfry::models {
namespace {

using optim::GradientAndVariable;

// MeanOfTowers of tensors, on the scope's device, in ascending order of the towers.
Output WeightedMean(const Scope& scope, const std::vector<Output>& values, const std::vector<Output>& weights) {
  if (values.size() == 1) return ops::Identity(scope, values[0]);
  // Numbers of examples are not exact in 16 bits, and products with them overflow.
  const DType wide = values[0].dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  std::vector<Output> terms, counts;
  for (size_t i = 0; i < values.size(); ++i) {
    const Output count = ops::Cast(scope, weights[i], wide);
    const Output empty = ops::Equal(scope, count, ops::ZerosLike(scope, count));
    const Output value = ops::Cast(scope, values[i], wide);
    terms.push_back(ops::Mul(scope, ops::Select(scope, empty, ops::ZerosLike(scope, value), value), count));
    counts.push_back(count);
  }
  const Output sum = ops::AddN(scope, terms), count = ops::AddN(scope, counts);
  return ops::Cast(scope, ops::Div(scope, sum, count), values[0].dtype());
}

// Replaces the sparse ones of `averaged` by the means over the towers. Every tower's rows are sent to the scope's
// device.
void AverageRows(const Scope& scope, absl::Span<const BuiltTower> towers, std::vector<GradientAndVariable>& averaged) {
  if (towers.size() == 1) return;
  for (size_t k = 0; k < averaged.size(); ++k) {
    if (!averaged[k].indices.valid()) continue;
    std::vector<Output> rows, indices, numbers;
    for (size_t i = 0; i < towers.size(); ++i) {
      const GradientAndVariable& own = towers[i].gradients[k];
      rows.push_back(own.gradient);
      indices.push_back(own.indices);
      const Output zeros = ops::ZerosLike(scope, own.indices);  // of their shape, which is all that is read
      numbers.push_back(
          ops::Add(scope, zeros, ops::Cast(scope, ops::Const(scope, static_cast<int32_t>(i)), zeros.dtype())));
    }
    const ops::Gradient mean = ops::MeanRows(scope, ops::Concat(scope, rows, 0), ops::Concat(scope, indices, 0),
                                             ops::Concat(scope, numbers, 0), ops::Stack(scope, Weights(towers)));
    averaged[k].gradient = mean.value;
    averaged[k].indices = mean.indices;
  }
}

std::vector<GradientAndVariable> AverageOnDevice(const Scope& scope, absl::Span<const BuiltTower> towers) {
  std::vector<GradientAndVariable> averaged = towers[0].gradients;
  const std::vector<Output> weights = Weights(towers);
  for (size_t k = 0; k < averaged.size(); ++k) {
    if (!averaged[k].gradient.valid() || averaged[k].indices.valid()) continue;
    std::vector<Output> values;
    for (const BuiltTower& tower : towers) values.push_back(tower.gradients[k].gradient);
    averaged[k].gradient = WeightedMean(scope, values, weights);
  }
  AverageRows(scope, towers, averaged);
  return averaged;
}

}  // namespace

Output MeanOfTowers(const Scope& scope, Output values, Output weights) {
  const Output zeros = ops::ZerosLike(scope, weights);
  const Output counted = ops::Select(scope, ops::Equal(scope, weights, zeros), zeros, values);
  return ops::Div(scope, ops::Sum(scope, ops::Mul(scope, counted, weights)), ops::Sum(scope, weights));
}

void FindTouchedRows(const BuiltTower& tower, std::vector<GradientAndVariable>& averaged) {
  if (tower.touched.empty()) return;
  const Scope scope = tower.rank.averaging();
  std::vector<Output> own;
  for (const auto& [k, touched] : tower.touched) own.push_back(touched);
  const std::vector<Output> any = ops::AllReduceSum(scope, tower.rank.Collective("gradients/touched"), own);
  if (!scope.status().ok()) return;
  size_t n = 0;
  for (const auto& [k, touched] : tower.touched) {
    const Variable& table = tower.gradients[k].variable;
    const auto pair = std::find_if(averaged.begin(), averaged.end(), [&](const GradientAndVariable& candidate) {
      return candidate.variable.whole() == table;
    });
    const bool part = pair->variable != table;
    const int64_t begin = part ? pair->variable.def().begin : 0;
    const int64_t width = part ? table.shape().elements(1, table.shape().rank()) : 1;
    pair->indices = ops::TouchedIndices(scope, any[n++], width, begin, pair->variable.shape()[0]);
  }
}

std::vector<Output> Weights(absl::Span<const BuiltTower> towers) {
  std::vector<Output> weights;
  for (const BuiltTower& tower : towers) weights.push_back(tower.result.weight);
  return weights;
}

bool StatesWeights(absl::Span<const BuiltTower> towers) { return towers[0].result.weight != towers[0].result.examples; }

ops::CollectiveOptions TowerRank::Collective(absl::string_view name) const {
  return {.group = absl::StrCat(group, name), .rank = number, .size = towers};
}

Output SumOfTowers(const TowerRank& tower, absl::string_view name, Output value) {
  return ops::AllReduceSum(tower.averaging(), tower.Collective(name), {value})[0];
}

std::vector<Output> GatherScalars(const TowerRank& tower, absl::string_view name, absl::Span<const Output> scalars,
                                  DType dtype) {
  const Scope scope = tower.averaging();
  const auto count = static_cast<int64_t>(scalars.size());
  std::vector<Output> wide;
  for (const Output scalar : scalars) {
    wide.push_back(ops::Reshape(scope, ops::Cast(scope, scalar, dtype), {1, 1}));
  }
  const Output own = count == 1 ? wide[0] : ops::Concat(scope, wide, 1);
  const Output all =
      SumOfTowers(tower, name, ops::Pad(scope, own, {{tower.number, tower.towers - tower.number - 1}, {0, 0}}));
  std::vector<Output> vectors;
  for (int64_t i = 0; i < count; ++i) {
    const Output column = count == 1 ? all : ops::Slice(scope, all, {0, i}, {tower.towers, 1});
    vectors.push_back(ops::Reshape(scope, column, {tower.towers}));
  }
  return vectors;
}

void AddMeanFigures(const Scope& scope, absl::Span<const BuiltTower> towers, TrainStep& step) {
  std::vector<std::vector<Output>> figures;  // by tower: the loss, then the metrics and a weight that is stated
  std::vector<Output> of_all;                // by figure: a vector of it in all towers, if other processes have some
  for (const BuiltTower& tower : towers) {
    figures.push_back({tower.result.loss});
    for (const TrainMetric& metric : tower.result.metrics) figures.back().push_back(metric.mean);
    if (StatesWeights(towers)) figures.back().push_back(tower.result.weight);
    if (!tower.examples_of_all.valid()) continue;
    // All take part, and the first tower's copy is used.
    std::vector<Output> gathered = GatherScalars(tower.rank, "loss", figures.back());
    if (of_all.empty()) of_all = std::move(gathered);
  }
  // From vectors of all towers, so that the bits do not depend on how the towers are dealt to processes.
  const auto mean = [&](size_t figure) {
    if (!of_all.empty()) {
      return MeanOfTowers(scope, of_all[figure], StatesWeights(towers) ? of_all.back() : towers[0].examples_of_all);
    }
    std::vector<Output> values;
    for (const auto& own : figures) values.push_back(ops::Cast(scope, own[figure], DType::kFloat32));
    if (values.size() == 1) return ops::Identity(scope, values[0]);
    return MeanOfTowers(scope, ops::Stack(scope, values), ops::Stack(scope, Weights(towers)));
  };
  step.loss = mean(0);
  for (const TrainMetric& metric : towers[0].result.metrics) {
    step.metrics.push_back({metric.name, mean(step.metrics.size() + 1)});
  }
}

GradientBuckets::GradientBuckets(absl::Span<const GradientAndVariable> gradients, size_t bytes) {
  size_t filled = 0;
  for (size_t k = 0; k < gradients.size(); ++k) {
    const Output gradient = gradients[k].gradient;
    if (!gradient.valid() || gradients[k].indices.valid()) continue;
    const bool fits =
        !buckets_.empty() && filled < bytes && gradients[buckets_.back().front()].gradient.dtype() == gradient.dtype();
    if (!fits) {
      buckets_.emplace_back();
      filled = 0;
    }
    buckets_.back().push_back(k);
    filled += gradients[k].variable.node().outputs()[0].bytes();
  }
}

ops::CollectiveOptions GradientBuckets::Collective(const TowerRank& tower, size_t bucket) const {
  return tower.Collective(absl::StrCat("gradients/bucket_", bucket));
}

std::vector<GradientAndVariable> GradientBuckets::Average(const TowerRank& tower, Output weight,
                                                          std::vector<GradientAndVariable> gradients) const {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Output> values;
    for (size_t k : buckets_[b]) values.push_back(gradients[k].gradient);
    const std::vector<Output> means = ops::AllReduceMean(tower.averaging(), Collective(tower, b), weight, values);
    for (size_t n = 0; n < means.size(); ++n) gradients[buckets_[b][n]].gradient = means[n];
  }
  return gradients;
}

std::vector<GradientAndVariable> GradientBuckets::AverageParts(const TowerRank& tower, Output weight,
                                                               absl::Span<const GradientAndVariable> gradients) const {
  std::vector<GradientAndVariable> parts;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Output> values;
    std::vector<Shape> shapes;
    for (size_t k : buckets_[b]) {
      values.push_back(gradients[k].gradient);
      shapes.push_back(gradients[k].variable.shape());
    }
    const ops::CollectiveOptions collective = Collective(tower, b);
    const std::vector<Output> means = ops::ReduceScatterMean(tower.averaging(), collective, weight, values);
    if (!tower.scope.status().ok()) return {};
    const std::vector<ops::FlatPart> flat = ops::PartsOfTower(collective, means[0].dtype(), shapes);
    for (size_t n = 0; n < means.size(); ++n) {
      const Variable& variable = gradients[buckets_[b][n]].variable;
      parts.push_back({means[n], SliceOfVariable(tower.scope, variable, flat[n].begin, flat[n].size)});
      if (!parts.back().variable.valid()) return {};
    }
  }
  return parts;
}

std::vector<GradientAndVariable> GradientBuckets::Sum(const TowerRank& tower,
                                                      std::vector<GradientAndVariable> gradients) const {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Output> values;
    for (size_t k : buckets_[b]) values.push_back(gradients[k].gradient);
    const std::vector<Output> sums = ops::AllReduceSum(tower.averaging(), Collective(tower, b), values);
    for (size_t n = 0; n < sums.size(); ++n) gradients[buckets_[b][n]].gradient = sums[n];
  }
  return gradients;
}

std::vector<GradientAndVariable> GradientBuckets::TakeParts(const TowerRank& tower,
                                                            absl::Span<const GradientAndVariable> gradients) const {
  const Scope scope = tower.averaging();
  std::vector<GradientAndVariable> parts;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Shape> shapes;
    for (size_t k : buckets_[b]) shapes.push_back(gradients[k].variable.shape());
    const DType dtype = gradients[buckets_[b][0]].variable.dtype();
    const std::vector<ops::FlatPart> flat = ops::PartsOfTower(Collective(tower, b), dtype, shapes);
    for (size_t n = 0; n < flat.size(); ++n) {
      const auto& [gradient, variable, indices] = gradients[buckets_[b][n]];
      const Output row = ops::Reshape(scope, gradient, {variable.shape().elements()});
      parts.push_back({ops::Slice(scope, row, {flat[n].begin}, {flat[n].size}),
                       SliceOfVariable(tower.scope, variable, flat[n].begin, flat[n].size)});
      if (!tower.scope.status().ok()) return {};
    }
  }
  return parts;
}

std::vector<std::pair<Variable, Output>> GradientBuckets::GatherUpdated(const TowerRank& tower,
                                                                        absl::Span<const GradientAndVariable> parts,
                                                                        absl::Span<const Output> updated) const {
  std::vector<std::pair<Variable, Output>> values;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const size_t size = buckets_[b].size(), first = values.size();
    std::vector<Shape> shapes;
    for (const GradientAndVariable& part : parts.subspan(first, size)) shapes.push_back(part.variable.whole().shape());
    // They read the variables after the updates, not the updates' outputs: updates whose output nobody reads are fused.
    std::vector<Output> values_of_parts;
    for (const GradientAndVariable& part : parts.subspan(first, size)) values_of_parts.push_back(part.variable);
    const Scope after = tower.averaging().ControlDependencies(updated.subspan(first, size));
    const std::vector<Output> gathered =
        ops::AllGather(after, tower.Collective(absl::StrCat("variables/bucket_", b)), values_of_parts, shapes);
    for (size_t n = 0; n < size; ++n) values.emplace_back(parts[first + n].variable.whole(), gathered[n]);
  }
  return values;
}

std::vector<std::vector<GradientAndVariable>> AverageGradients(absl::Span<const BuiltTower> towers,
                                                               VariableUpdate update, const GradientBuckets& buckets,
                                                               bool parts, const Scope& device) {
  if (update == VariableUpdate::kParameterDevice) return {AverageOnDevice(device.NameScope("averaging/"), towers)};
  std::vector<std::vector<GradientAndVariable>> averaged;
  for (const BuiltTower& tower : towers) {
    averaged.push_back(tower.gradients);
    if (update == VariableUpdate::kIndependent) continue;
    const Output weight = tower.result.weight;
    averaged.back() = parts ? buckets.AverageParts(tower.rank, weight, tower.gradients)
                            : buckets.Average(tower.rank, weight, tower.gradients);
    AverageRows(tower.rank.averaging(), towers, averaged.back());
    FindTouchedRows(tower, averaged.back());
  }
  return averaged;
}

}  // namespace belfry::models
