#include "models/towers/summaries.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/summary.h"

namespace belfry::models {
namespace {

// Beside the node and in its tower, with names below its own.
Scope At(const Scope& scope, const Node& node) {
  const Scope around =
      node.tower() < 0 ? scope : scope.InTower(node.tower()).NameScope(node.tower_scope()).InTower(node.tower());
  return around.NameScope(absl::StrCat(node.name(), "/")).ColocateWith(node);
}

void AddLossSummaries(const Scope& scope, const TrainTower& tower) {
  const Graph& graph = scope.graph();
  for (const Output& loss : graph.GetCollection(kLosses, tower.scope.name())) {
    ops::ScalarSummary(scope.NameScope("").ColocateWith(*loss.node), loss.node->name(), loss);
  }
}

}  // namespace

void ActivationSummaries(OpScope scope, Output x) {
  if (!x.valid()) {
    scope.Add("ActivationSummaries", {x});  // an error
    return;
  }
  const Scope at = At(scope, *x.node);
  ops::HistogramSummary(at, "activations", x);
  const Output zero = ops::Equal(at, x, ops::ZerosLike(at, x));
  ops::ScalarSummary(at, "sparsity", ops::Mean(at, ops::Cast(at, zero, DType::kFloat32)));
}

std::vector<Output> AddTrainSummaries(OpScope scope, const TrainStep& step, const SummaryOptions& options) {
  if (!scope.status().ok()) return {};
  // Towers in series are not part of the update.
  for (size_t i = 0; i < step.towers.size() && step.micro_batches == 1; ++i) {
    const TrainTower& tower = step.towers[i];
    AddLossSummaries(scope, tower);
    if (!options.activations || (i > 0 && !options.all_towers)) continue;
    for (const Output& x : scope.graph().GetCollection(kActivations, tower.scope.name())) {
      ActivationSummaries(scope, x);
    }
  }
  ops::ScalarSummary(scope.ColocateWith(*step.loss.node), "total_loss", step.loss);
  ops::ScalarSummary(scope.ColocateWith(*step.learning_rate.node), "learning_rate", step.learning_rate);
  if (step.loss_scale.valid()) {
    ops::ScalarSummary(scope.ColocateWith(step.loss_scale.node()), "loss_scale", step.loss_scale);
  }
  for (const auto& [gradient, variable, indices] : step.gradients) {
    const Scope at = scope.ColocateWith(variable.node());
    if (options.variables) ops::HistogramSummary(at, variable.name(), variable.whole());
    // The rows of a sparse one are not known in number.
    const bool empty = !gradient.valid() || (gradient.shape().known() && gradient.shape().elements() == 0);
    if (options.gradients && !empty) {
      ops::HistogramSummary(scope.ColocateWith(*gradient.node), absl::StrCat(variable.name(), "/gradients"), gradient);
    }
  }
  if (!scope.status().ok()) return {};
  return scope.graph().GetCollection(kSummaries, scope.name());
}

}  // namespace belfry::models
