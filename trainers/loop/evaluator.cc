#include "trainers/loop/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/prefetcher.h"
#include "models/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kTableClasses = 20;
constexpr size_t kPairs = 10;

}  // namespace

Evaluator::Evaluator(OpScope scope, const models::InputSpec& input, const LogitsFunction& logits)
    : input_(input.inputs) {
  batch_.images = ops::Placeholder(scope.Named("inputs"), input.inputs_dtype, input.inputs.Insert(0, Shape::kUnknown));
  batch_.labels = ops::Placeholder(scope.Named("labels"), input.labels_dtype, {Shape::kUnknown});
  const absl::StatusOr<Output> made = logits(scope, batch_.images);
  if (!made.ok()) scope.Fail(made.status());
  if (!made.ok() || !made->valid()) return;
  const auto in_top = [&](int64_t k) {
    return ops::Cast(scope, ops::InTopK(scope, *made, batch_.labels, k), DType::kFloat32);
  };
  // InTopK alone takes ties as right, and arg-max alone takes NaN as the largest.
  predicted_ = ops::ArgMax(scope, *made, -1, DType::kInt32);
  classes_ = made->shape()[-1];
  const Output first = in_top(1), correct = models::Correct(scope, *made, batch_.labels);
  right_ = ops::Sum(scope, ops::Mul(scope, first, correct));
  right_of_5_ = ops::Sum(scope, in_top(std::min<int64_t>(5, made->shape()[-1])));
  loss_ =
      ops::Cast(scope, ops::Sum(scope, ops::SparseSoftmaxCrossEntropy(scope, *made, batch_.labels)), DType::kFloat32);
}

std::vector<FeedSpec> Evaluator::FeedsOf(int64_t batch_size) const {
  return {{batch_.images, input_.Insert(0, batch_size)}, {batch_.labels, {batch_size}}};
}

absl::StatusOr<Evaluation> Evaluator::Run(Session& session, const data::Dataset& dataset,
                                          const data::ImagePolicy& images, int64_t batch_size,
                                          const Node* before) const {
  if (before != nullptr) RETURN_IF_ERROR(session.RunTarget(before));
  ASSIGN_OR_RETURN(
      const auto input,
      data::Prefetcher::Create(
          dataset, {.batch_size = batch_size, .shuffle = false, .epochs = 1, .images = images, .threads = 0}));
  Evaluation sums{.classes = classes_, .confusion = std::vector<int64_t>(classes_ * classes_)};
  while (true) {
    const absl::StatusOr<data::Batch> batch = input->Next();
    if (absl::IsOutOfRange(batch.status())) break;
    RETURN_IF_ERROR(batch.status());
    const data::TowerBatch& examples = batch->towers()[0];
    ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                     session.Run({{batch_.images, examples.inputs}, {batch_.labels, examples.labels}}, fetches()));
    sums.examples += examples.count;
    sums.loss += values[0].scalar<float>();
    sums.accuracy += values[1].scalar<float>();
    sums.top_5 += values[2].scalar<float>();
    for (int64_t i = 0; i < examples.count; ++i) {
      const int64_t label = examples.labels.data<int32_t>()[i], predicted = values[3].data<int32_t>()[i];
      if (label >= 0 && label < classes_ && predicted >= 0) ++sums.confusion[label * classes_ + predicted];
    }
  }
  const auto n = static_cast<double>(std::max<int64_t>(sums.examples, 1));
  sums.accuracy /= n;
  sums.top_5 /= n;
  sums.loss /= n;
  return sums;
}

std::string ConfusionTable(const Evaluation& evaluation, const std::vector<std::string>& names) {
  const int64_t classes = evaluation.classes;
  const auto name = [&](int64_t i) {
    return i < static_cast<int64_t>(names.size()) ? names[i] : absl::StrCat("class ", i);
  };
  const auto count = [&](int64_t is, int64_t taken_for) { return evaluation.confusion[is * classes + taken_for]; };
  std::string text;
  if (classes > kTableClasses) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t i = 0; i < classes * classes; ++i) {
      if (i / classes != i % classes && evaluation.confusion[i] > 0) pairs.emplace_back(-evaluation.confusion[i], i);
    }
    std::sort(pairs.begin(), pairs.end());
    if (pairs.size() > kPairs) pairs.resize(kPairs);
    for (const auto& [negative, i] : pairs) {
      absl::StrAppendFormat(&text, "%8d  %s taken for %s\n", -negative, name(i / classes), name(i % classes));
    }
    return text;
  }
  absl::StrAppendFormat(&text, "%-19s", "    is \\ taken for");
  for (int64_t i = 0; i < classes; ++i) absl::StrAppendFormat(&text, " %6d", i);
  absl::StrAppend(&text, "   right\n");
  for (int64_t is = 0; is < classes; ++is) {
    int64_t all = 0;
    absl::StrAppendFormat(&text, "%3d %-15.15s", is, name(is));
    for (int64_t i = 0; i < classes; ++i) {
      absl::StrAppendFormat(&text, " %6d", count(is, i));
      all += count(is, i);
    }
    absl::StrAppendFormat(&text, "  %5.1f%%\n", all > 0 ? 100.0 * count(is, is) / all : 0.0);
  }
  return text;
}

}  // namespace belfry::trainers
