#include "trainers/evaluator.h"

#include <algorithm>

#include "framework/base/status.h"
#include "framework/data/prefetcher.h"
#include "models/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::trainers {

Evaluator::Evaluator(OpScope scope, const models::InputSpec& input, const LogitsFunction& logits) {
  batch_.images = ops::Placeholder(scope.Named("inputs"), input.inputs_dtype, input.inputs.Insert(0, Shape::kUnknown));
  batch_.labels = ops::Placeholder(scope.Named("labels"), input.labels_dtype, {Shape::kUnknown});
  const absl::StatusOr<Output> made = logits(scope, batch_.images);
  if (!made.ok()) scope.Fail(made.status());
  if (!made.ok() || !made->valid()) return;
  const auto in_top = [&](int64_t k) {
    return ops::Cast(scope, ops::InTopK(scope, *made, batch_.labels, k), DType::kFloat32);
  };
  // InTopK alone takes ties as right, and arg-max alone takes NaN as the largest.
  right_ = ops::Sum(scope, ops::Mul(scope, in_top(1), models::Correct(scope, *made, batch_.labels)));
  right_of_5_ = ops::Sum(scope, in_top(std::min<int64_t>(5, made->shape()[-1])));
  loss_ =
      ops::Cast(scope, ops::Sum(scope, ops::SparseSoftmaxCrossEntropy(scope, *made, batch_.labels)), DType::kFloat32);
}

absl::StatusOr<Evaluation> Evaluator::Run(Session& session, const data::Dataset& dataset,
                                          const data::ImagePolicy& images, int64_t batch_size,
                                          const Node* before) const {
  if (before != nullptr) RETURN_IF_ERROR(session.RunTarget(before));
  ASSIGN_OR_RETURN(
      const auto input,
      data::Prefetcher::Create(
          dataset, {.batch_size = batch_size, .shuffle = false, .epochs = 1, .images = images, .threads = 0}));
  Evaluation sums;
  while (true) {
    const absl::StatusOr<data::Batch> batch = input->Next();
    if (absl::IsOutOfRange(batch.status())) break;
    RETURN_IF_ERROR(batch.status());
    const data::TowerBatch& examples = batch->towers()[0];
    ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                     session.Run({{batch_.images, examples.inputs}, {batch_.labels, examples.labels}},
                                 {loss_, right_, right_of_5_}));
    sums.examples += examples.count;
    sums.loss += values[0].scalar<float>();
    sums.accuracy += values[1].scalar<float>();
    sums.top_5 += values[2].scalar<float>();
  }
  const auto n = static_cast<double>(std::max<int64_t>(sums.examples, 1));
  return Evaluation{sums.examples, sums.accuracy / n, sums.top_5 / n, sums.loss / n};
}

}  // namespace belfry::trainers
