#include "trainers/loop/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world.h"
#include "models/layers/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "trainers/loop/dealt_batches_impl.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kTableClasses = 20;
constexpr size_t kPairs = 10;

// The results of one batch.
struct BatchSums {
  int64_t batch = 0, labels = 0;
  float loss = 0, right = 0, right_of_5 = 0;
};

// Replaces the results of this process by those of all, in the order of the batches: sums then have the same bits
// however the batches were dealt.
absl::Status PutTogether(World& world, absl::Time deadline, std::vector<BatchSums>& batches,
                         std::vector<int64_t>& confusion) {
  const auto text = [](const auto& values) {
    return absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world.AllGather(text(batches), deadline));
  ASSIGN_OR_RETURN(const std::vector<std::string> counts, world.AllGather(text(confusion), deadline));
  batches.clear();
  std::fill(confusion.begin(), confusion.end(), 0);
  for (int task = 0; task < world.size(); ++task) {
    if (all[task].size() % sizeof(BatchSums) != 0 || counts[task].size() != confusion.size() * sizeof(int64_t)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(task, world.processes()[task]), " evaluates another model"));
    }
    const size_t before = batches.size();
    batches.resize(before + all[task].size() / sizeof(BatchSums));
    all[task].copy(reinterpret_cast<char*>(batches.data() + before), all[task].size());
    std::vector<int64_t> other(confusion.size());
    counts[task].copy(reinterpret_cast<char*>(other.data()), counts[task].size());
    for (size_t i = 0; i < confusion.size(); ++i) confusion[i] += other[i];
  }
  std::sort(batches.begin(), batches.end(), [](const BatchSums& a, const BatchSums& b) { return a.batch < b.batch; });
  return absl::OkStatus();
}

// The characters of a text in UTF-8, which are as many columns of most scripts.
int Columns(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Classification::operator Evaluation() const {
  return {.examples = labels,
          .metrics = {{.name = "accuracy", .value = accuracy, .larger_is_better = true, .percent = true},
                      {.name = "top_5", .value = top_5, .larger_is_better = true, .percent = true},
                      {.name = "loss", .value = loss}}};
}

Evaluator::Evaluator(OpScope scope, absl::Span<const data::Field> fields, const LogitsFunction& logits,
                     const std::string& label)
    : batch_(scope, fields) {
  const auto unknown = [](const data::Field& field) { return !field.shape.known(); };
  if (std::any_of(fields.begin(), fields.end(), unknown)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("an Evaluator runs over a data::Dataset, whose examples have one shape, but was given the fields ",
                     data::FieldsText(fields), "; run a session on the batches of a data::BucketBatcher instead")));
    return;
  }
  if (!batch_[models::FieldName(label, scope.location())].valid()) return;
  label_ = *data::FindField(fields, label);
  labels_per_example_ = fields[label_].shape.elements();
  const absl::StatusOr<Output> built = logits(scope, batch_);
  if (!built.ok()) scope.Fail(built.status());
  if (!built.ok() || !built->valid()) return;
  logits_ = *built;
  classes_ = built->shape()[-1];
  const bool one = fields[label_].shape.rank() == 0;
  const Output labels = one ? batch_[label] : ops::Reshape(scope, batch_[label], {-1});
  const Output made = one ? *built : ops::Reshape(scope, *built, {-1, classes_});
  const auto in_top = [&](int64_t k) { return ops::Cast(scope, ops::InTopK(scope, made, labels, k), DType::kFloat32); };
  // InTopK alone takes ties as right, and arg-max alone takes NaN as the largest.
  predicted_ = ops::ArgMax(scope, made, -1, DType::kInt32);
  const Output first = in_top(1), correct = models::Correct(scope, made, labels);
  right_ = ops::Sum(scope, ops::Mul(scope, first, correct));
  right_of_5_ = ops::Sum(scope, in_top(std::min<int64_t>(5, classes_)));
  loss_ = ops::Cast(scope, ops::Sum(scope, ops::SparseSoftmaxCrossEntropy(scope, made, labels)), DType::kFloat32);
}

std::vector<PlannedStep> Evaluator::Steps(int64_t examples, int64_t batch_size) const {
  std::vector<PlannedStep> steps;
  for (const int64_t size : {std::min(batch_size, examples), examples % batch_size}) {
    if (size == 0 || (!steps.empty() && size == examples)) continue;
    const absl::string_view name = steps.empty() ? "evaluation" : "evaluation of the last batch";
    steps.push_back({.name = std::string(name), .feeds = FeedsOf(size), .fetches = fetches()});
  }
  return steps;
}

absl::StatusOr<Classification> Evaluator::Run(Session& session, const data::Dataset& dataset,
                                              const data::ImagePolicies& images, int64_t batch_size, World* world,
                                              absl::Duration task_timeout) const {
  std::vector<BatchSums> batches;
  std::vector<int64_t> confusion(classes_ <= Classification::kMaxConfusion ? classes_ * classes_ : 0);
  RETURN_IF_ERROR(ForDealtBatches(dataset, images, batch_size, world, [&](const data::Batch& batch) -> absl::Status {
    const data::TowerBatch& examples = batch.towers()[0];
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(batch_.Feeds(examples), fetches()));
    const int64_t labels = examples.count * labels_per_example_;
    batches.push_back({batch.position().batch, labels, values[0].scalar<float>(), values[1].scalar<float>(),
                       values[2].scalar<float>()});
    const Tensor& is = examples.fields[label_];
    for (int64_t i = 0; i < labels && !confusion.empty(); ++i) {
      const int64_t label = is.dtype() == DType::kInt64 ? is.data<int64_t>()[i] : is.data<int32_t>()[i];
      const int64_t predicted = values[3].data<int32_t>()[i];
      if (label >= 0 && label < classes_ && predicted >= 0) ++confusion[label * classes_ + predicted];
    }
    return absl::OkStatus();
  }));
  if (world != nullptr && world->size() > 1)
    RETURN_IF_ERROR(PutTogether(*world, SteadyNow() + task_timeout, batches, confusion));
  Classification sums{.classes = classes_, .confusion = std::move(confusion)};
  for (const BatchSums& batch : batches) {
    sums.labels += batch.labels;
    sums.loss += batch.loss;
    sums.accuracy += batch.right;
    sums.top_5 += batch.right_of_5;
  }
  const auto n = static_cast<double>(std::max<int64_t>(sums.labels, 1));
  sums.accuracy /= n;
  sums.top_5 /= n;
  sums.loss /= n;
  return sums;
}

std::string ConfusionTable(const Classification& results, const std::vector<std::string>& names, int columns) {
  const int64_t classes = results.confusion.empty() ? 0 : results.classes;
  const auto name = [&](int64_t i) {
    return i < static_cast<int64_t>(names.size()) ? names[i] : absl::StrCat("class ", i);
  };
  // A category without a name, as the unknown one of a CSV file's label, is left out if no example is or was taken for
  // it.
  std::vector<int64_t> shown;
  for (int64_t i = 0; i < classes; ++i) {
    bool used = !name(i).empty();
    for (int64_t other = 0; other < classes && !used; ++other) {
      used = results.confusion[i * classes + other] + results.confusion[other * classes + i] > 0;
    }
    if (used) shown.push_back(i);
  }
  const auto count = [&](int64_t is, int64_t taken_for) { return results.confusion[is * classes + taken_for]; };
  const int64_t largest = classes == 0 ? 0 : *std::max_element(results.confusion.begin(), results.confusion.end());
  const auto digits = static_cast<int>(std::max(absl::StrCat(largest).size(), absl::StrCat(classes).size()));
  int width = 15;  // that of the heading, at least
  for (int64_t i = 0; i < classes; ++i) width = std::max(width, Columns(name(i)));
  std::string text;
  if (classes > kTableClasses || 4 + width + static_cast<int>(shown.size()) * (digits + 1) + 8 > columns) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t i = 0; i < classes * classes; ++i) {
      if (i / classes != i % classes && results.confusion[i] > 0) pairs.emplace_back(-results.confusion[i], i);
    }
    std::sort(pairs.begin(), pairs.end());
    if (pairs.size() > kPairs) pairs.resize(kPairs);
    for (const auto& [negative, i] : pairs) {
      absl::StrAppendFormat(&text, "%8d  %s taken for %s\n", -negative, name(i / classes), name(i % classes));
    }
    return text;
  }
  absl::StrAppendFormat(&text, "%-*s", width + 4, "    is \\ taken for");
  for (const int64_t i : shown) absl::StrAppendFormat(&text, " %*d", digits, i);
  absl::StrAppend(&text, "   right\n");
  for (const int64_t is : shown) {
    int64_t all = 0;
    absl::StrAppendFormat(&text, "%3d %s%s", is, name(is), std::string(width - Columns(name(is)), ' '));
    for (const int64_t i : shown) {
      absl::StrAppendFormat(&text, " %*d", digits, count(is, i));
      all += count(is, i);
    }
    absl::StrAppendFormat(&text, "  %5.1f%%\n", all > 0 ? 100.0 * count(is, is) / all : 0.0);
  }
  return text;
}

}  // namespace belfry::trainers
