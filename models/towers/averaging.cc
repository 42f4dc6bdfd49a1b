#include "models/towers/averaging.h"

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

using optim::GradientAndVariable;

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

Output MeanOfTowers(const Scope& scope, Output values, Output examples) {
  const Output zeros = ops::ZerosLike(scope, examples);
  const Output counted = ops::Select(scope, ops::Equal(scope, examples, zeros), zeros, values);
  return ops::Div(scope, ops::Sum(scope, ops::Mul(scope, counted, examples)), ops::Sum(scope, examples));
}

ops::Gradient MeanOfRows(const Scope& scope, absl::Span<const GradientAndVariable> gradients,
                         absl::Span<const Output> examples) {
  if (gradients.size() == 1) return {gradients[0].gradient, gradients[0].indices};
  std::vector<Output> rows, indices;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Output own = gradients[i].gradient;
    const Scope beside = scope.ColocateWith(*own.node);
    const Output share = ops::Div(beside, examples[i], ops::AddN(beside, examples));
    rows.push_back(ops::Mul(beside, own, ops::Cast(beside, share, own.dtype())));
    indices.push_back(gradients[i].indices);
  }
  return ops::SumRows(scope, ops::Concat(scope, rows, 0), ops::Concat(scope, indices, 0));
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

std::vector<GradientAndVariable> GradientBuckets::Average(const TowerRank& tower, Output weight,
                                                          std::vector<GradientAndVariable> gradients) const {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Output> values;
    for (size_t k : buckets_[b]) values.push_back(gradients[k].gradient);
    const std::vector<Output> means =
        ops::AllReduceMean(tower.averaging(), tower.Collective(absl::StrCat("gradients/bucket_", b)), weight, values);
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
    const ops::CollectiveOptions collective = tower.Collective(absl::StrCat("gradients/bucket_", b));
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

}  // namespace belfry::models
