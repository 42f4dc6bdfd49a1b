#include "trainers/tabular/tabular_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/io/json_impl.h"
#include "models/layers/losses.h"
#include "models/networks/wide_deep.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/loop/area_under_roc.h"

namespace belfry::trainers {
namespace {

constexpr char kModelKey[] = "tabular.model";

int64_t OutputsOf(const TableSchema& schema) {
  return schema.task == TableTask::kClasses ? static_cast<int64_t>(schema.classes().size()) : 1;
}

// A column's own name in the model: columns whose names differ in special characters alone must not share variables.
std::string OwnName(const std::string& column, std::set<std::string>& taken) {
  std::string name = models::NodeName(column);
  for (int i = 2; !taken.insert(name).second; ++i) name = absl::StrCat(models::NodeName(column), "_", i);
  return name;
}

// log(1 + exp(x)), without overflow.
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// The probabilities of the classes of a row.
std::vector<double> Probabilities(const TableSchema& schema, const float* logits) {
  if (schema.task == TableTask::kBinary) return {std::exp(-Softplus(logits[0])), std::exp(-Softplus(-logits[0]))};
  const int64_t classes = OutputsOf(schema);
  const double largest = *std::max_element(logits, logits + classes);
  std::vector<double> probabilities;
  for (int64_t i = 0; i < classes; ++i) probabilities.push_back(std::exp(logits[i] - largest));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

int64_t ClassOf(const TableSchema& schema, const float* logits) {
  if (schema.task == TableTask::kBinary) return logits[0] > 0 ? 1 : 0;
  return std::max_element(logits, logits + OutputsOf(schema)) - logits;
}

double LogLoss(const TableSchema& schema, const float* logits, int64_t label) {
  if (schema.task == TableTask::kBinary) return Softplus(label == 1 ? -logits[0] : logits[0]);
  const int64_t classes = OutputsOf(schema);
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - largest);
  return std::log(sum) - (logits[label] - largest);
}

Evaluation RegressionFigures(const TableSchema& schema, const Tensor& logits, absl::Span<const double> truth) {
  const auto n = static_cast<double>(truth.size());
  const double first = truth.empty() ? 0 : truth[0];
  double squares = 0, sum = 0, variation = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double value = logits.data<float>()[i] * schema.target_scale.deviation + schema.target_scale.mean;
    squares += (value - truth[i]) * (value - truth[i]);
    sum += truth[i] - first;
  }
  for (const double value : truth) variation += (value - first - sum / n) * (value - first - sum / n);
  return {
      .examples = static_cast<int64_t>(truth.size()),
      .metrics = {
          {.name = "rmse", .value = std::sqrt(squares / n)},
          {.name = "r2", .value = variation > 0 ? 1 - squares / variation : std::nan(""), .larger_is_better = true}}};
}

// A field of RFC 4180.
std::string Field(const std::string& text, char separator) {
  const bool plain = !text.empty() && text.find_first_of("\"\r\n#") == std::string::npos &&
                     text.find(separator) == std::string::npos && text.front() != ' ' && text.back() != ' ';
  return plain ? text : absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

void PutModel(const TableModel& model, io::Metadata& metadata) {
  const nlohmann::json json = {{"wide", model.wide}, {"hidden", model.hidden}, {"embedding", model.embedding}};
  metadata[kModelKey] = json.dump();
}

absl::StatusOr<TableModel> TakeModel(const io::Metadata& metadata) {
  const auto text = metadata.find(kModelKey);
  const nlohmann::json json = text == metadata.end() ? nlohmann::json() : io::ParseJson(text->second);
  bool whole = json.is_object() && json.contains("wide") && json["wide"].is_boolean() && json.contains("hidden") &&
               json["hidden"].is_array() && json.contains("embedding") && json["embedding"].is_number_unsigned();
  TableModel model{.hidden = {}};
  for (const nlohmann::json& width : whole ? json["hidden"] : nlohmann::json::array()) {
    whole = whole && width.is_number_unsigned() && width > 0;
    if (whole) model.hidden.push_back(width.get<int64_t>());
  }
  if (!whole) {
    return absl::InvalidArgumentError(absl::StrCat("The checkpoint's \"", kModelKey, "\" is missing or damaged"));
  }
  model.wide = json["wide"].get<bool>();
  model.embedding = json["embedding"].get<int64_t>();
  return model;
}

int64_t EmbeddingWidth(int64_t texts) {
  return std::min<int64_t>(600, std::llround(1.6 * std::pow(static_cast<double>(texts), 0.56)));
}

Output TableLogits(const Scope& scope, const models::Batch& batch, const TableSchema& schema, const TableModel& model,
                   bool training) {
  models::TableInput table;
  if (!schema.numbers.empty()) table.numbers = batch["numbers"];
  std::set<std::string> taken;
  for (const data::Column& column : schema.features) {
    if (column.type != data::ColumnType::kCategory) continue;
    const auto texts = static_cast<int64_t>(column.vocabulary.size());
    table.categories.push_back({.name = OwnName(column.name, taken),
                                .ids = batch[absl::StrCat("category.", column.name)],
                                .categories = texts,
                                .width = model.embedding > 0 ? model.embedding : EmbeddingWidth(texts)});
  }
  return models::WideDeep(scope, table,
                          {.outputs = OutputsOf(schema),
                           .wide = model.wide,
                           .hidden = model.hidden,
                           .dropout = model.dropout,
                           .training = training});
}

Output TableLoss(const Scope& scope, Output logits, const models::Batch& batch, const TableSchema& schema) {
  if (!logits.valid()) return Output();
  const Output target = batch["target"];
  if (schema.task == TableTask::kClasses) return models::AddCrossEntropy(scope, logits, target);
  const Output one = ops::Squeeze(scope, logits, {1});
  if (schema.task == TableTask::kRegression) {
    return ops::Mean(scope.Named("squared_error"), ops::SquaredDifference(scope, one, target));
  }
  const Output label = ops::Cast(scope, target, DType::kFloat32);
  return ops::Mean(scope.Named("log_loss"), ops::SigmoidCrossEntropy(scope, one, label));
}

Evaluation TableFigures(const TableSchema& schema, const Tensor& logits, absl::Span<const double> truth) {
  if (schema.task == TableTask::kRegression) return RegressionFigures(schema, logits, truth);
  const auto n = static_cast<double>(truth.size());
  double loss = 0, right = 0;
  std::vector<uint8_t> positive;
  for (size_t i = 0; i < truth.size(); ++i) {
    const float* const row = logits.data<float>() + static_cast<int64_t>(i) * OutputsOf(schema);
    const auto label = static_cast<int64_t>(truth[i]);
    loss += LogLoss(schema, row, label) / n;
    right += ClassOf(schema, row) == label ? 1 / n : 0;
    positive.push_back(label == 1);
  }
  Evaluation figures{.examples = static_cast<int64_t>(truth.size()), .metrics = {{.name = "loss", .value = loss}}};
  if (schema.task == TableTask::kBinary) {
    figures.metrics.push_back(
        {.name = "auc", .value = AreaUnderRoc(logits.span<float>(), positive), .larger_is_better = true});
  }
  figures.metrics.push_back({.name = "accuracy", .value = right, .larger_is_better = true, .percent = true});
  return figures;
}

std::string PredictionsCsv(const TableSchema& schema, const Tensor& logits, char separator) {
  std::string csv = Field(schema.target.name, separator);
  for (const std::string& name : schema.classes()) {
    absl::StrAppend(&csv, std::string(1, separator), Field(absl::StrCat("probability of ", name), separator));
  }
  csv += '\n';
  const int64_t outputs = OutputsOf(schema);
  for (int64_t row = 0; row < logits.shape()[0]; ++row) {
    const float* const values = logits.data<float>() + row * outputs;
    if (schema.task == TableTask::kRegression) {
      csv += fmt::format("{:.9g}\n", values[0] * schema.target_scale.deviation + schema.target_scale.mean);
      continue;
    }
    csv += Field(schema.classes()[ClassOf(schema, values)], separator);
    for (const double p : Probabilities(schema, values)) {
      csv += separator;
      csv += fmt::format("{:.9g}", p);
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace belfry::trainers
