// The towers of a replicated model (replicate_towers.h) while it is built, and averages and other collectives among
// them. Internal to models.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "models/towers/replicate_towers.h"
#include "ops/collective.h"
#include "optim/apply.h"

namespace belfry::models {

// One tower among all. Every tower must make the same calls of what takes it.
struct TowerRank {
  Scope scope;        // the tower's
  std::string group;  // begins the names of the model's collectives, in all towers
  int number = 0;     // of the tower
  int towers = 1;     // of all processes

  Scope averaging() const { return scope.NameScope("averaging/"); }
  ops::CollectiveOptions Collective(absl::string_view name) const;
};

struct BuiltTower {
  TowerRank rank;
  size_t copy = 0;  // the index of the copy of the variables that it reads
  TrainTower result;
  Output model_updates;  // bool scalar: the condition of the model's own updates of variables; invalid: none
  // int64 scalars: the number of its examples, and of the examples of this process's towers up to it.
  Output rows, rows_until;
  Output examples_of_all;  // float32 [towers]: every tower's number; invalid if this process has all towers
  std::vector<optim::GradientAndVariable> gradients;  // last layer first
  // The rows that the tower touched (ops::DenseGradient), by index into `gradients`, of sparse gradients that are in
  // their dense form to be averaged. Empty if there are none.
  std::map<size_t, Output> touched;
  std::vector<Variable> sums;  // of towers in series: sums of `gradients`, in that order, invalid where there is none
  Variable figures;  // of towers in series (series.h), float32 [series, F]: each one's loss, metrics and weight
};
// TrainTower::weight of each.
std::vector<Output> Weights(absl::Span<const BuiltTower> towers);
// True if the model states the weights of its losses (SetLossWeight).
bool StatesWeights(absl::Span<const BuiltTower> towers);

// The sum of `value` over the towers; invalid after an error.
Output SumOfTowers(const TowerRank& tower, absl::string_view name, Output value);
// For each of `scalars` a vector of it in all towers, of `dtype`: float32 or float64. Sums of one number and zeros are
// exact, and keep a NaN to its tower. Invalid outputs after an error.
std::vector<Output> GatherScalars(const TowerRank& tower, absl::string_view name, absl::Span<const Output> scalars,
                                  DType dtype = DType::kFloat32);

// sum(w_i * x_i) / sum(w_i), a scalar, for vectors of each tower's value x_i and weight w_i. A tower of weight 0 may
// have any value.
Output MeanOfTowers(const Scope& scope, Output values, Output weights);
// Sets TrainStep::loss and metrics: the weighted means over the towers of all processes.
void AddMeanFigures(const Scope& scope, absl::Span<const BuiltTower> towers, TrainStep& step);

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
  // The sums over the towers of gradients, or of anything in their place.
  std::vector<optim::GradientAndVariable> Sum(const TowerRank& tower,
                                              std::vector<optim::GradientAndVariable> gradients) const;
  // The parts of AverageParts, cut from whole gradients that all towers share.
  std::vector<optim::GradientAndVariable> TakeParts(const TowerRank& tower,
                                                    absl::Span<const optim::GradientAndVariable> gradients) const;
  // The values of the whole variables once their parts have been updated, in the same order. `updated`: the outputs of
  // the updates, one for each part.
  std::vector<std::pair<Variable, Output>> GatherUpdated(const TowerRank& tower,
                                                         absl::Span<const optim::GradientAndVariable> parts,
                                                         absl::Span<const Output> updated) const;

 private:
  ops::CollectiveOptions Collective(const TowerRank& tower, size_t bucket) const;

  std::vector<std::vector<size_t>> buckets_;  // indices into a tower's gradients
};

// Gives the averaged dense forms of a tower's sparse gradients, or its parts of them, the indices of the rows that any
// tower touched.
void FindTouchedRows(const BuiltTower& tower, std::vector<optim::GradientAndVariable>& averaged);

// For every copy of the variables the gradients that update it: the means over all towers by TrainTower::weight;
// independent towers keep their own. Sparse gradients become the means of the rows that any
// tower touched, with the same bits whether towers exchange rows or dense forms of them. With `parts` of the variables,
// the means of these. `device`: the scope of a parameter device.
std::vector<std::vector<optim::GradientAndVariable>> AverageGradients(absl::Span<const BuiltTower> towers,
                                                                      VariableUpdate update,
                                                                      const GradientBuckets& buckets, bool parts,
                                                                      const Scope& device);

}  // namespace belfry::models
