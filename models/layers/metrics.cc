#include "models/layers/metrics.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

void AddMetric(OpScope tower, absl::string_view name, Output figure) {
  if (!figure.valid()) return tower.AddToCollection(kMetrics, figure);  // an error
  tower.graph().AddToCollection(kMetrics, {absl::StrCat(tower.name(), name), figure});
}

absl::StatusOr<std::vector<TrainMetric>> TowerMetrics(const Scope& tower) {
  const std::vector<Output> losses = tower.graph().GetCollection(kLosses, tower.name());
  std::vector<TrainMetric> metrics;
  for (const CollectionItem& item : tower.graph().collection(kMetrics)) {
    if (!InScope(item.path, tower.name()) || !std::holds_alternative<Output>(item.value)) continue;
    const Output metric = std::get<Output>(item.value);
    if (losses.size() == 1 && losses[0] == metric) continue;
    if (metric.shape().rank() != 0 || !IsFloating(metric.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat(metric.name(), " in the collection '", kMetrics, "' is ",
                                                     DTypeName(metric.dtype()), " ", metric.shape().ToString(),
                                                     "; expected a float scalar, such as an ops::Mean"));
    }
    metrics.push_back({std::string(absl::StripPrefix(item.path, tower.name())), metric});
  }
  return metrics;
}

Output Correct(OpScope scope, Output logits, Output labels) {
  const DType index_type = labels.valid() ? labels.dtype() : DType::kInt32;
  const Output predicted = ops::ArgMax(scope, logits, -1, index_type);
  return ops::Cast(scope, ops::Equal(scope, predicted, labels), DType::kFloat32);
}

Output Accuracy(OpScope scope, Output logits, Output labels) {
  return ops::Mean(scope.Named("accuracy"), Correct(scope, logits, labels));
}

Output TopKAccuracy(OpScope scope, Output logits, Output labels, int64_t k) {
  const Output hit = ops::Cast(scope, ops::InTopK(scope, logits, labels, k), DType::kFloat32);
  return ops::Mean(scope.Named("top_k_accuracy"), hit);
}

}  // namespace belfry::models
