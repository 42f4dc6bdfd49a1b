#include "models/metrics.h"

#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {

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
