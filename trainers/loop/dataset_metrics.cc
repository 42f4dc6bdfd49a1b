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
#include "framework/base/units.h"
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

// The metrics of a model with one output.
std::vector<OutputMetric> OfOutput(const std::vector<DatasetMetric>& rules, const Output& output,
                                   const std::string& label) {
  std::vector<OutputMetric> metrics;
  for (const DatasetMetric& rule : rules) {
    metrics.push_back({.name = rule.name, .output = output, .label = label, .rule = rule});
  }
  return metrics;
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

// The numbers that this process has of all batches, and from them the metrics.
class DatasetMetrics::Tally {
 public:
  explicit Tally(const DatasetMetrics& of) : of_(of) {}

  // Adds the examples of a tower, of which number `first` of the data is the first.
  absl::Status Add(Session& session, const data::TowerBatch& examples, int64_t first) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(of_.batch_.Feeds(examples), of_.outputs_));
    for (size_t i = 0; i < of_.metrics_.size(); ++i) {
      const OutputMetric& metric = of_.metrics_[i];
      const absl::StatusOr<Numbers> numbers = NumbersOf(metric, ValueOf(metric, values), examples);
      if (!numbers.ok()) {
        return absl::Status(numbers.status().code(),
                            absl::StrCat("Metric ", metric.name, ": ", numbers.status().message()));
      }
      Append(static_cast<int64_t>(i), first, *numbers, mine_);
    }
    examples_ += examples.count;
    return absl::OkStatus();
  }

  absl::StatusOr<Evaluation> Finish(World* world, absl::Duration task_timeout) {
    std::vector<std::string> all;
    Append(static_cast<int64_t>(of_.metrics_.size()), world == nullptr ? 0 : world->rank(),
           {static_cast<double>(examples_)}, mine_);
    if (world != nullptr && world->size() > 1) {
      ASSIGN_OR_RETURN(all, world->AllGather(mine_, SteadyNow() + task_timeout));
    } else {
      all.push_back(std::move(mine_));
    }
    std::vector<std::map<int64_t, Numbers>> by_batch(of_.metrics_.size() + 1);
    for (const std::string& bytes : all) RETURN_IF_ERROR(Read(bytes, by_batch));
    Evaluation evaluation;
    for (const auto& [rank, count] : by_batch.back()) evaluation.examples += static_cast<int64_t>(count.at(0));
    for (size_t i = 0; i < of_.metrics_.size(); ++i) {
      std::vector<Numbers> batches;
      for (auto& [batch, numbers] : by_batch[i]) batches.push_back(std::move(numbers));
      const DatasetMetric& rule = of_.metrics_[i].rule;
      evaluation.metrics.push_back({of_.metrics_[i].name, rule.value(batches), rule.larger_is_better, rule.percent});
    }
    return evaluation;
  }

 private:
  const Tensor& ValueOf(const OutputMetric& metric, const std::vector<Tensor>& values) const {
    return values[std::find(of_.outputs_.begin(), of_.outputs_.end(), metric.output) - of_.outputs_.begin()];
  }

  absl::StatusOr<Numbers> NumbersOf(const OutputMetric& metric, const Tensor& value,
                                    const data::TowerBatch& examples) const {
    ASSIGN_OR_RETURN(const size_t label, data::FindField(of_.batch_.fields(), metric.label));
    if (metric.lengths.empty()) return metric.rule.of_batch(value, examples.fields[label]);
    ASSIGN_OR_RETURN(const size_t field, data::FindField(of_.batch_.fields(), metric.lengths));
    const Tensor& lengths = examples.fields[field];
    if (lengths.dtype() != DType::kInt32 || lengths.shape().rank() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("the field '", metric.lengths, "' of lengths is ",
                                                     DTypeName(lengths.dtype()), " ", lengths.shape().ToString(),
                                                     " in a batch; expected int32 [N]"));
    }
    ASSIGN_OR_RETURN(const Tensor outputs, WithoutPadding(value, lengths));
    ASSIGN_OR_RETURN(const Tensor labels, WithoutPadding(examples.fields[label], lengths));
    return metric.rule.of_batch(outputs, labels);
  }

  // The steps of all sequences of x [N, T, ...], one after the other: [steps, ...].
  static absl::StatusOr<Tensor> WithoutPadding(const Tensor& x, const Tensor& lengths) {
    const Shape& shape = x.shape();
    if (shape.rank() < 2 || shape[0] != lengths.elements()) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor ", shape.ToString(), " is no batch of ",
                                                     lengths.elements(), " sequences, [N, T, ...]"));
    }
    int64_t steps = 0;
    for (const int32_t length : lengths.span<int32_t>()) {
      if (length < 0 || length > shape[1]) {
        return absl::InvalidArgumentError(absl::StrCat("length ", length, " of sequences of ", shape[1], " steps"));
      }
      steps += length;
    }
    Tensor packed(x.dtype(), shape.Remove(0).Remove(0).Insert(0, steps));
    const size_t of_step = static_cast<size_t>(shape.elements(2, shape.rank())) * SizeOf(x.dtype());
    const auto* from = static_cast<const char*>(x.raw());
    auto* to = static_cast<char*>(packed.raw());
    for (const int32_t length : lengths.span<int32_t>()) {
      const size_t bytes = static_cast<size_t>(length) * of_step;
      if (bytes > 0) std::memcpy(to, from, bytes);
      to += bytes;
      from += static_cast<size_t>(shape[1]) * of_step;
    }
    return packed;
  }

  const DatasetMetrics& of_;
  std::string mine_;
  int64_t examples_ = 0;
};

DatasetMetrics::DatasetMetrics(OpScope scope, absl::Span<const data::Field> fields, const ModelOutputs::Model& model,
                               std::vector<DatasetMetric> metrics, const std::string& label) {
  const ModelOutputs outputs(scope, fields, model);
  *this = DatasetMetrics(scope, outputs.batch(), OfOutput(metrics, outputs.output(), label));
}

DatasetMetrics::DatasetMetrics(OpScope scope, models::Batch batch, std::vector<OutputMetric> metrics)
    : batch_(std::move(batch)), metrics_(std::move(metrics)) {
  Evaluation names;
  for (OutputMetric& metric : metrics_) {
    names.metrics.push_back({.name = metric.name});
    if (std::find(outputs_.begin(), outputs_.end(), metric.output) == outputs_.end()) outputs_.push_back(metric.output);
    if (metric.rule.of_batch) continue;
    absl::StatusOr<DatasetMetric> rule = NamedMetric(metric.name);
    if (!rule.ok()) scope.Fail(rule.status());
    if (rule.ok()) metric.rule = *std::move(rule);
  }
  if (absl::Status status = CheckNames(names, "DatasetMetrics"); !status.ok()) scope.Fail(status);
}

std::vector<PlannedStep> DatasetMetrics::Steps(int64_t examples, int64_t batch_size) const {
  return EvaluationSteps(batch_, outputs_, examples, batch_size);
}

absl::StatusOr<Evaluation> DatasetMetrics::Run(Session& session, const data::Dataset& dataset,
                                               const data::ImagePolicies& images, int64_t batch_size, World* world,
                                               absl::Duration task_timeout) const {
  Tally tally(*this);
  RETURN_IF_ERROR(ForDealtBatches(dataset, images, batch_size, world, [&](const data::Batch& batch) {
    return tally.Add(session, batch.towers()[0], batch.position().batch);
  }));
  return tally.Finish(world, task_timeout);
}

absl::StatusOr<Evaluation> DatasetMetrics::Run(Session& session, data::BatchSource& source, int64_t batches,
                                               World* world, absl::Duration task_timeout) const {
  Tally tally(*this);
  for (int64_t i = 0; i < batches; ++i) {
    absl::StatusOr<data::Batch> batch = source.Next();
    if (absl::IsOutOfRange(batch.status())) break;
    RETURN_IF_ERROR(batch.status());
    for (const data::TowerBatch& tower : batch->towers()) {
      if (tower.count > 0) RETURN_IF_ERROR(tally.Add(session, tower, i * source.batch_size() + tower.offset));
    }
  }
  ASSIGN_OR_RETURN(const Evaluation evaluation, tally.Finish(world, task_timeout));
  if (evaluation.examples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "DatasetMetrics had nothing to evaluate: ", Counted(batches, "batch"), " of a source that has ended?"));
  }
  return evaluation;
}

}  // namespace belfry::trainers
