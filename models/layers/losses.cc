#include "models/layers/losses.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "models/layers/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

Output LossesOf(const Scope& scope, Output logits, Output labels, double label_smoothing) {
  return ops::SparseSoftmaxCrossEntropy(scope.Named("cross_entropy_per_example"), logits, labels,
                                        {.label_smoothing = label_smoothing});
}

Output AddMean(const Scope& scope, Output losses) {
  const Output loss = ops::Mean(scope.Named("cross_entropy"), losses);
  scope.AddToCollection(kLosses, loss);
  scope.AddToCollection(kMetrics, loss);
  return loss;
}

// Without the weight decays of variables that earlier ones have by the same factor, as each call of a layer adds one.
std::vector<Output> WithoutRepeatedDecays(const std::vector<Output>& losses) {
  HashSet<std::pair<const Node*, double>> seen;
  std::vector<Output> kept;
  for (const Output& loss : losses) {
    const Node* const norm = loss.node->op().name == "Scale" ? loss.node->input(0).node : nullptr;
    const bool decay =
        norm != nullptr && norm->op().name == "L2Loss" && norm->input(0).node->op().role == OpRole::kVariable;
    if (decay && !seen.insert({norm->input(0).node, loss.node->attrs().Get<double>("factor")}).second) continue;
    kept.push_back(loss);
  }
  return kept;
}

}  // namespace

void AddWeightDecay(OpScope scope, const Variable& variable, double weight_decay) {
  if (weight_decay == 0) return;
  const Output loss = ops::L2Loss(scope, variable);
  if (loss.valid()) scope.AddToCollection(kLosses, ops::Scale(scope.Named("weight_decay"), loss, weight_decay));
}

Output AddCrossEntropy(OpScope scope, Output logits, Output labels, double label_smoothing) {
  return AddMean(scope, LossesOf(scope, logits, labels, label_smoothing));
}

Output AddCrossEntropy(OpScope scope, Output logits, const MixedLabels& labels, double label_smoothing) {
  const Output first = LossesOf(scope, logits, labels.first, label_smoothing);
  const Output second = LossesOf(scope, logits, labels.second, label_smoothing);
  if (!first.valid() || !second.valid()) return Output();
  Output weight = labels.weight;
  for (int axis = 1; axis < first.shape().rank(); ++axis) weight = ops::ExpandDims(scope, weight, -1);
  // second + weight (first - second)
  return AddMean(scope, ops::Add(scope, second, ops::Mul(scope, weight, ops::Sub(scope, first, second))));
}

void SetLossWeight(OpScope tower, Output weight) {
  if (weight.valid() && weight.dtype() != DType::kBool && weight.shape().rank() == 0) {
    tower.AddToCollection(kLossWeights, ops::Cast(tower.Named("loss_weight"), weight, DType::kFloat32));
    return;
  }
  tower.Fail(absl::InvalidArgumentError(absl::StrCat(
      "SetLossWeight: the weight must be a number, a scalar, but is ",
      weight.valid() ? absl::StrCat(weight.name(), ", ", DTypeName(weight.dtype()), " ", weight.shape().ToString())
                     : std::string("an invalid Output"))));
}

Output TotalLoss(OpScope scope) {
  if (!scope.status().ok()) return Output();
  const std::vector<Output> losses = scope.graph().GetCollection(kLosses, scope.name());
  if (losses.empty()) {
    scope.Fail(absl::FailedPreconditionError(absl::StrCat(
        "TotalLoss: the collection '", kLosses, "' holds nothing in the scope '", scope.name(),
        "'. Add the model's loss first: scope.AddToCollection(kLosses, loss), with the scope of the same tower.")));
    return Output();
  }
  for (const Output& loss : losses) {
    if (loss.shape().rank() == 0) continue;
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("TotalLoss: ", loss.name(), " in the collection '", kLosses,
                                                       "' is not a scalar but ", loss.shape().ToString(),
                                                       ". Did you mean its ops::Mean?")));
    return Output();
  }
  return ops::AddN(scope.Named("total_loss"), WithoutRepeatedDecays(losses));
}

}  // namespace belfry::models
