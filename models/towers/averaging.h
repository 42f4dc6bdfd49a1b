// Collectives among the towers of a replicated model (replicate_towers.h). Internal to models.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "ops/collective.h"
#include "ops/training.h"
#include "optim/apply.h"

namespace belfry::models {

// One tower among all. Every tower must make the same calls.
struct TowerRank {
  Scope scope;        // the tower's
  std::string group;  // begins the names of the model's collectives, in all towers
  int number = 0;     // of the tower
  int towers = 1;     // of all processes

  Scope averaging() const { return scope.NameScope("averaging/"); }
  ops::CollectiveOptions Collective(absl::string_view name) const;
};

// The sum of `value` over the towers; invalid after an error.
Output SumOfTowers(const TowerRank& tower, absl::string_view name, Output value);
// For each of `scalars` a vector of it in all towers, of `dtype`: float32 or float64. Sums of one number and zeros are
// exact, and keep a NaN to its tower. Invalid outputs after an error.
std::vector<Output> GatherScalars(const TowerRank& tower, absl::string_view name, absl::Span<const Output> scalars,
                                  DType dtype = DType::kFloat32);
// sum(n_i * x_i) / sum(n_i), a scalar, for vectors of each tower's value x_i and number of examples n_i. A tower
// without examples may have any value.
Output MeanOfTowers(const Scope& scope, Output values, Output examples);

// The mean of the towers' sparse gradients of one variable, each weighted by its tower's number of examples, a float32
// scalar: the rows of all, in ascending order of the towers, and those of equal indices added up. Every tower's rows
// are sent to the scope's device; they are weighted where they are.
ops::Gradient MeanOfRows(const Scope& scope, absl::Span<const optim::GradientAndVariable> gradients,
                         absl::Span<const Output> examples);

// The buckets in which gradients are averaged: neighbours with one dtype, one collective for each bucket. The same for
// every tower.
class GradientBuckets {
 public:
  GradientBuckets() = default;
  // Sparse gradients are in none. A bucket is closed once it has `bytes` or more. Larger ones need fewer collectives,
  // smaller ones can start earlier.
  GradientBuckets(absl::Span<const optim::GradientAndVariable> gradients, size_t bytes);

  // The means of the towers' gradients, weighted by float32 scalars. After an error, which sticks to the graph, these
  // are invalid.
  std::vector<optim::GradientAndVariable> Average(const TowerRank& tower, Output weight,
                                                  std::vector<optim::GradientAndVariable> gradients) const;
  // The tower's parts of these means, with the parts of the variables, bucket by bucket; some may be empty, so that all
  // towers have the same variables by name.
  std::vector<optim::GradientAndVariable> AverageParts(const TowerRank& tower, Output weight,
                                                       absl::Span<const optim::GradientAndVariable> gradients) const;
  // The values of the whole variables once their parts have been updated, in the same order. `updated`: the outputs of
  // the updates, one for each part.
  std::vector<std::pair<Variable, Output>> GatherUpdated(const TowerRank& tower,
                                                         absl::Span<const optim::GradientAndVariable> parts,
                                                         absl::Span<const Output> updated) const;

 private:
  std::vector<std::vector<size_t>> buckets_;  // indices into a tower's gradients
};

}  // namespace belfry::models
