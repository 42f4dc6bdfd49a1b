#include "trainers/loop/dataset_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world.h"
#include "trainers/loop/area_under_roc.h"
#include "trainers/loop/dealt_batches_impl.h"

namespace belfry::trainers {
namespace {

using Numbers = std::vector<double>;
using Batches = absl::Span<const Numbers>;

// The sums of all batches, which have as many numbers each.
Numbers Sum(Batches batches) {
  Numbers sums;
  for (const Numbers& batch : batches) {
    sums.resize(std::max(sums.size(), batch.size()));
    for (size_t i = 0; i < batch.size(); ++i) sums[i] += batch[i];
  }
  return sums;
}

absl::Status Mismatch(const Tensor& outputs, const Tensor& labels, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("outputs ", outputs.shape().ToString(), " and labels ",
                                                 DTypeName(labels.dtype()), " ", labels.shape().ToString(),
                                                 "; expected ", expected));
}

// --- Classes ---

// Calls use(label, logits) for each label that is not negative.
template <class Use>
absl::Status ForLabels(const Tensor& logits, const Tensor& labels, const Use& use) {
  const int rank = logits.shape().rank();
  if (logits.dtype() != DType::kFloat32 || rank < 2 ||
      (labels.dtype() != DType::kInt32 && labels.dtype() != DType::kInt64) ||
      logits.shape().Remove(rank - 1) != labels.shape()) {
    return Mismatch(logits, labels, "float32 logits [N, ..., classes] and integer labels [N, ...]");
  }
  const int64_t classes = logits.shape()[rank - 1];
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const int64_t label = labels.dtype() == DType::kInt64 ? labels.data<int64_t>()[i] : labels.data<int32_t>()[i];
    if (label < 0) continue;
    if (label >= classes) {
      return absl::InvalidArgumentError(absl::StrCat("label ", label, " of ", classes, " classes"));
    }
    use(label, logits.span<float>().subspan(static_cast<size_t>(i * classes), static_cast<size_t>(classes)));
  }
  return absl::OkStatus();
}

using Logits = absl::Span<const float>;

constexpr bool kLarger = true, kSmaller = false;  // DatasetMetric::larger_is_better

// The mean over labels of `score`, as a metric's two parts, then `finish` of the mean. Means that are better when
// larger are shares.
DatasetMetric MeanOfLabels(absl::string_view name, bool better,
                           std::function<double(int64_t label, Logits logits)> score,
                           double (*finish)(double mean) = nullptr) {
  return {std::string(name), better, /*percent=*/better == kLarger,
          [score = std::move(score)](const Tensor& logits, const Tensor& labels) -> absl::StatusOr<Numbers> {
            Numbers sums(2);
            RETURN_IF_ERROR(ForLabels(logits, labels, [&](int64_t label, Logits of) {
              sums[0] += 1;
              sums[1] += score(label, of);
            }));
            return sums;
          },
          [finish](Batches batches) {
            const Numbers sums = Sum(batches);
            const double mean = sums.empty() ? std::nan("") : sums[1] / sums[0];
            return finish == nullptr ? mean : finish(mean);
          }};
}

// True if fewer than k logits are above the label's. Logits that are not finite are never right, as in Evaluator.
bool InTop(int64_t k, int64_t label, Logits logits) {
  int64_t above = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) return false;
    above += logit > logits[label];
  }
  return above < k;
}

int64_t Predicted(Logits logits) { return std::max_element(logits.begin(), logits.end()) - logits.begin(); }

double Accurate(int64_t label, Logits logits) { return InTop(1, label, logits) && Predicted(logits) == label; }

double CrossEntropy(int64_t label, Logits logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[label];
}

// Of each class: labels, predictions, hits.
absl::StatusOr<Numbers> CountClasses(const Tensor& logits, const Tensor& labels) {
  const int rank = logits.shape().rank();
  Numbers counts(rank < 1 ? 0 : 3 * static_cast<size_t>(logits.shape()[rank - 1]));
  RETURN_IF_ERROR(ForLabels(logits, labels, [&](int64_t label, Logits of) {
    ++counts[3 * label];
    // Logits that are not finite predict nothing.
    if (!std::all_of(of.begin(), of.end(), [](float logit) { return std::isfinite(logit); })) return;
    const int64_t predicted = Predicted(of);
    ++counts[3 * predicted + 1];
    if (predicted == label) ++counts[3 * label + 2];
  }));
  return counts;
}

// The mean of a ratio over the classes for which it has a denominator.
DatasetMetric MeanOfClasses(absl::string_view name, double (*numerator)(double hits),
                            double (*denominator)(double labels, double predictions, double hits)) {
  return {std::string(name), kLarger, /*percent=*/false, CountClasses, [numerator, denominator](Batches batches) {
            const Numbers counts = Sum(batches);
            double sum = 0, classes = 0;
            for (size_t i = 0; i + 2 < counts.size(); i += 3) {
              const double of = denominator(counts[i], counts[i + 1], counts[i + 2]);
              if (of == 0) continue;
              sum += numerator(counts[i + 2]) / of;
              classes += 1;
            }
            return sum / classes;
          }};
}

// --- Numbers ---

// Element i of a tensor of any dtype.
double Number(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return tensor.data<float>()[i];
    case DType::kFloat64: return tensor.data<double>()[i];
    case DType::kInt32: return tensor.data<int32_t>()[i];
    case DType::kInt64: return static_cast<double>(tensor.data<int64_t>()[i]);
    case DType::kUInt8: return tensor.data<uint8_t>()[i];
    case DType::kBool: return tensor.data<bool>()[i] ? 1 : 0;
    default: return std::nan("");
  }
}

absl::StatusOr<Numbers> ScoresAndMarks(const Tensor& outputs, const Tensor& labels) {
  const int64_t n = labels.elements();
  const bool pairs = outputs.elements() == 2 * n && outputs.shape().rank() == 2;
  if (outputs.dtype() != DType::kFloat32 || (outputs.elements() != n && !pairs)) {
    return Mismatch(outputs, labels, "float32 scores [N], [N, 1] or [N, 2], and N labels");
  }
  Numbers numbers;
  for (int64_t i = 0; i < n; ++i) {
    const float* const x = outputs.data<float>() + (pairs ? 2 * i : i);
    const double mark = Number(labels, i);
    if (mark != 0 && mark != 1) return absl::InvalidArgumentError(absl::StrCat("label ", mark, " is neither 0 nor 1"));
    numbers.push_back(pairs ? x[1] - x[0] : x[0]);
    numbers.push_back(mark);
  }
  return numbers;
}

double AreaOf(Batches batches) {
  std::vector<float> scores;
  std::vector<uint8_t> marks;
  for (const Numbers& batch : batches) {
    for (size_t i = 0; i < batch.size(); i += 2) {
      scores.push_back(static_cast<float>(batch[i]));
      marks.push_back(batch[i + 1] != 0 ? 1 : 0);
    }
  }
  return AreaUnderRoc(scores, marks);
}

// Numbers, absolute and squared errors; then the labels' mean and squared distances from it, by which batches are put
// together without the cancellation that sums of squares suffer (Chan et al., "Updating formulae and a pairwise
// algorithm for computing sample variances", 1979).
absl::StatusOr<Numbers> ErrorsOf(const Tensor& outputs, const Tensor& labels) {
  if (outputs.dtype() != DType::kFloat32 || outputs.elements() != labels.elements()) {
    return Mismatch(outputs, labels, "float32 outputs, and as many labels");
  }
  Numbers sums(5);
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const double label = Number(labels, i), error = outputs.data<float>()[i] - label;
    sums[0] += 1;
    sums[1] += std::abs(error);
    sums[2] += error * error;
    const double distance = label - sums[3];
    sums[3] += distance / sums[0];
    sums[4] += distance * (label - sums[3]);
  }
  return sums;
}

Numbers AllErrors(Batches batches) {
  Numbers all(5);
  for (const Numbers& batch : batches) {
    if (batch[0] == 0) continue;
    const double n = all[0] + batch[0], distance = batch[3] - all[3];
    all[4] += batch[4] + distance * distance * all[0] * batch[0] / n;
    all[3] += distance * batch[0] / n;
    for (int i = 0; i < 3; ++i) all[i] += batch[i];
  }
  return all;
}

DatasetMetric OfErrors(absl::string_view name, bool better, double (*value)(const Numbers& sums)) {
  return {std::string(name), better, /*percent=*/false, ErrorsOf,
          [value](Batches batches) { return value(AllErrors(batches)); }};
}

// --- Processes ---

// The numbers of a batch as bytes, and back: the metric, the batch, how many, and they.
void Append(int64_t metric, int64_t batch, const Numbers& numbers, std::string& bytes) {
  const int64_t head[3] = {metric, batch, static_cast<int64_t>(numbers.size())};
  bytes.append(reinterpret_cast<const char*>(head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
}

absl::Status Read(absl::string_view bytes, std::vector<std::map<int64_t, Numbers>>& metrics) {
  while (!bytes.empty()) {
    int64_t head[3];
    if (bytes.size() < sizeof head) return absl::DataLossError("cut short");
    std::memcpy(head, bytes.data(), sizeof head);
    bytes.remove_prefix(sizeof head);
    if (head[0] < 0 || head[0] >= static_cast<int64_t>(metrics.size()) || head[2] < 0 ||
        static_cast<uint64_t>(head[2]) > bytes.size() / sizeof(double)) {
      return absl::DataLossError("damaged");
    }
    Numbers numbers(static_cast<size_t>(head[2]));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
    bytes.remove_prefix(numbers.size() * sizeof(double));
    metrics[head[0]][head[1]] = std::move(numbers);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DatasetMetric> NamedMetric(absl::string_view name) {
  absl::string_view digits = name;
  int64_t k = 0;
  if (absl::ConsumePrefix(&digits, "top_") && absl::SimpleAtoi(digits, &k) && k > 0) {
    return MeanOfLabels(name, kLarger, [k](int64_t label, Logits logits) -> double { return InTop(k, label, logits); });
  }
  const auto hits = [](double h) { return h; };
  const DatasetMetric known[] = {
      MeanOfLabels("accuracy", kLarger, Accurate),
      MeanOfLabels("loss", kSmaller, CrossEntropy),
      MeanOfLabels("perplexity", kSmaller, CrossEntropy, [](double mean) { return std::exp(mean); }),
      MeanOfClasses(
          "f1", [](double h) { return 2 * h; }, [](double l, double p, double) { return l + p; }),
      MeanOfClasses("precision", hits, [](double, double p, double) { return p; }),
      MeanOfClasses("recall", hits, [](double l, double, double) { return l; }),
      MeanOfClasses("iou", hits, [](double l, double p, double h) { return l + p - h; }),
      {"auc", kLarger, /*percent=*/false, ScoresAndMarks, AreaOf},
      OfErrors("mae", kSmaller, [](const Numbers& sums) { return sums[1] / sums[0]; }),
      OfErrors("mse", kSmaller, [](const Numbers& sums) { return sums[2] / sums[0]; }),
      OfErrors("rmse", kSmaller, [](const Numbers& sums) { return std::sqrt(sums[2] / sums[0]); }),
      OfErrors("r2", kLarger, [](const Numbers& sums) { return 1 - sums[2] / sums[4]; }),
  };
  std::vector<std::string> names = {"top_K"};
  for (const DatasetMetric& metric : known) {
    if (metric.name == name) return metric;
    names.push_back(metric.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("There is no metric '", name, "'; choose one of ", absl::StrJoin(names, ", ")));
}

DatasetMetrics::DatasetMetrics(OpScope scope, absl::Span<const data::Field> fields, const ModelOutputs::Model& model,
                               std::vector<DatasetMetric> metrics, const std::string& label)
    : model_(scope, fields, model), metrics_(std::move(metrics)), label_(label) {
  Evaluation names;
  for (const DatasetMetric& metric : metrics_) names.metrics.push_back({.name = metric.name});
  if (absl::Status status = CheckNames(names, "DatasetMetrics"); !status.ok()) scope.Fail(status);
}

absl::StatusOr<Evaluation> DatasetMetrics::Run(Session& session, const data::Dataset& dataset,
                                               const data::ImagePolicies& images, int64_t batch_size, World* world,
                                               absl::Duration task_timeout) const {
  const auto field = std::find_if(dataset.fields().begin(), dataset.fields().end(),
                                  [&](const data::Field& each) { return each.name == label_; });
  if (field == dataset.fields().end()) {
    return absl::NotFoundError(absl::StrCat("the data have no field '", label_, "' of labels"));
  }
  const auto label = static_cast<size_t>(field - dataset.fields().begin());
  std::string mine;
  RETURN_IF_ERROR(ForDealtBatches(dataset, images, batch_size, world, [&](const data::Batch& batch) -> absl::Status {
    const data::TowerBatch& examples = batch.towers()[0];
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(model_.batch().Feeds(examples), {model_.output()}));
    for (size_t i = 0; i < metrics_.size(); ++i) {
      const absl::StatusOr<Numbers> numbers = metrics_[i].of_batch(values[0], examples.fields[label]);
      if (!numbers.ok()) {
        return absl::Status(numbers.status().code(),
                            absl::StrCat("Metric ", metrics_[i].name, ": ", numbers.status().message()));
      }
      Append(static_cast<int64_t>(i), batch.position().batch, *numbers, mine);
    }
    return absl::OkStatus();
  }));
  std::vector<std::string> all;
  if (world != nullptr && world->size() > 1) {
    ASSIGN_OR_RETURN(all, world->AllGather(mine, SteadyNow() + task_timeout));
  } else {
    all.push_back(std::move(mine));
  }
  std::vector<std::map<int64_t, Numbers>> by_batch(metrics_.size());
  for (const std::string& bytes : all) RETURN_IF_ERROR(Read(bytes, by_batch));
  Evaluation evaluation{.examples = dataset.size()};
  for (size_t i = 0; i < metrics_.size(); ++i) {
    std::vector<Numbers> batches;
    for (auto& [batch, numbers] : by_batch[i]) batches.push_back(std::move(numbers));
    const DatasetMetric& metric = metrics_[i];
    evaluation.metrics.push_back({metric.name, metric.value(batches), metric.larger_is_better, metric.percent});
  }
  return evaluation;
}

}  // namespace belfry::trainers
