#include "trainers/csv_regression.h"

#include <algorithm>
#include <cmath>

#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/in_memory.h"
#include "framework/data/table/csv.h"
#include "models/networks/linear_regression.h"
#include "optim/descent.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::trainers {
namespace {

// Errors are squared in float32.
constexpr double kMaxTarget = 1e18;

// Of the printed formula's predictions, in spreads of the target. Training in float32 leaves errors of that size.
constexpr double kFormulaError = 1e-6;

absl::StatusOr<CsvNumbers> ReadNumbers(const CsvRegressionOptions& options) {
  const data::Column target{.name = options.target.empty() ? "-1" : options.target, .largest = kMaxTarget};
  ASSIGN_OR_RETURN(const data::Table table, data::ReadCsv(options.path, {.columns = {target},
                                                                         .others = data::ColumnType::kFloat,
                                                                         .dtype = DType::kFloat64,
                                                                         .max_bytes = options.max_bytes}));
  for (const std::string& warning : table.warnings) spdlog::warn("{}: {}", options.path, warning);
  CsvNumbers numbers;
  std::vector<absl::Span<const double>> features;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].largest == kMaxTarget) {
      numbers.targets = table.values[i];
      numbers.target_name = table.columns[i].name;
      continue;
    }
    features.push_back(table.values[i].span<double>());
    numbers.feature_names.push_back(table.columns[i].name);
  }
  if (features.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": only column '", numbers.target_name,
                                                   "', the target; expected at least one feature"));
  }
  const auto columns = static_cast<int64_t>(features.size());
  numbers.features = Tensor(DType::kFloat64, {table.rows(), columns});
  for (int64_t i = 0; i < numbers.features.elements(); ++i) {
    numbers.features.data<double>()[i] = features[i % columns][i / columns];
  }
  return numbers;
}

absl::StatusOr<CsvMoments> MomentsOf(const CsvNumbers& csv) {
  const Tensor& table = csv.features;
  const int64_t rows = table.shape()[0], columns = table.shape()[1];
  CsvMoments moments{std::vector<double>(columns, 0), std::vector<double>(columns, 0)};
  const double* const values = table.data<double>();
  // Relative to the first row, so that the mean of a constant is exact.
  for (int64_t i = 0; i < columns; ++i) moments.mean[i] = values[i];
  for (int64_t i = 0; i < rows * columns; ++i) moments.mean[i % columns] += (values[i] - values[i % columns]) / rows;
  // In units of the largest difference, so that no square overflows or underflows.
  std::vector<double> largest(columns, 0);
  const auto difference = [&](int64_t i) { return values[i] - moments.mean[i % columns]; };
  for (int64_t i = 0; i < rows * columns; ++i) {
    largest[i % columns] = std::max(largest[i % columns], std::abs(difference(i)));
  }
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double unit = largest[i % columns];
    if (unit > 0) moments.deviation[i % columns] += difference(i) / unit * (difference(i) / unit) / rows;
  }
  for (int64_t i = 0; i < columns; ++i) {
    if (!std::isfinite(largest[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", csv.feature_names[i], "': the range of its numbers overflows"));
    }
    moments.deviation[i] = largest[i] > 0 ? largest[i] * std::sqrt(moments.deviation[i]) : 1;
  }
  return moments;
}

Tensor Standardise(const Tensor& table, const CsvMoments& moments) {
  const int64_t columns = table.shape()[1];
  Tensor result(DType::kFloat32, table.shape());
  for (int64_t i = 0; i < table.elements(); ++i) {
    const double value = (table.data<double>()[i] - moments.mean[i % columns]) / moments.deviation[i % columns];
    result.data<float>()[i] = static_cast<float>(value);
  }
  return result;
}

double MeanOf(const Tensor& values) {
  const absl::Span<const double> all = values.span<double>();
  // Relative to the first row, so that the mean of a constant is exact.
  double mean = all[0];
  for (const double value : all) mean += (value - all[0]) / static_cast<double>(all.size());
  return mean;
}

// The largest distance from `mean`.
double SpreadOf(const Tensor& values, double mean) {
  double spread = 0;
  for (const double value : values.span<double>()) spread = std::max(spread, std::abs(value - mean));
  return spread;
}

// A weight in the file's units is up to the target's spread over the column's deviation, which overflows for a column
// of subnormal numbers, say.
absl::Status CheckDeviations(const std::string& path, const CsvNumbers& table, const CsvMoments& moments,
                             double spread) {
  for (size_t i = 0; i < moments.deviation.size(); ++i) {
    if (std::isfinite(spread / moments.deviation[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": column '", table.feature_names[i], "': its numbers differ by no more than about ",
        moments.deviation[i], ", so its weight would exceed the largest number; multiply the column by a constant"));
  }
  return absl::OkStatus();
}

Tensor FloatDifferences(const Tensor& values, double from) {
  Tensor result(DType::kFloat32, values.shape());
  for (int64_t i = 0; i < values.elements(); ++i) {
    result.data<float>()[i] = static_cast<float>(values.data<double>()[i] - from);
  }
  return result;
}

// The plane in the file's units, from one for standardised features and differences from `target_mean`.
Plane Unstandardise(const Tensor& weight, float bias, double target_mean, const CsvMoments& moments,
                    const CsvNumbers& table) {
  Plane plane{.target = table.target_name, .features = table.feature_names, .bias = bias + target_mean};
  for (size_t i = 0; i < moments.mean.size(); ++i) {
    plane.weights.push_back(weight.data<float>()[i] / moments.deviation[i]);
    plane.bias -= plane.weights[i] * moments.mean[i];
  }
  return plane;
}

void MeasureErrors(const CsvNumbers& table, Plane& plane) {
  const int64_t rows = table.features.shape()[0], columns = table.features.shape()[1];
  const absl::Span<const double> targets = table.targets.span<double>();
  const double mean = MeanOf(table.targets);
  double variance = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double error = plane.bias - targets[row];
    for (int64_t i = 0; i < columns; ++i) error += plane.weights[i] * table.features.data<double>()[row * columns + i];
    plane.mean_squared_error += error * error / rows;
    variance += (targets[row] - mean) * (targets[row] - mean) / rows;
  }
  plane.r2 = variance > 0 ? 1 - plane.mean_squared_error / variance : std::nan("");
}

// The number with at least six digits, and as many as it takes to differ by at most `error`.
std::string Digits(double value, double error) {
  constexpr int kFewest = 6, kAll = 17;
  std::string text;
  for (int digits = kFewest; digits <= kAll; ++digits) {
    text = fmt::format("{:+.{}g}", value, digits);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && std::abs(read - value) <= error) break;
  }
  return text;
}

std::string FormulaOf(const Plane& plane, const CsvNumbers& table) {
  const int64_t rows = table.features.shape()[0], columns = table.features.shape()[1];
  const double mean = MeanOf(table.targets);
  double spread = SpreadOf(table.targets, mean);
  if (spread == 0) spread = std::abs(mean);
  // Each term may contribute its share.
  const double error = kFormulaError * spread / static_cast<double>(columns + 1);
  std::string text = absl::StrCat(plane.target, " =\n");
  for (int64_t i = 0; i < columns; ++i) {
    double largest = 0;
    for (int64_t row = 0; row < rows; ++row) {
      largest = std::max(largest, std::abs(table.features.data<double>()[row * columns + i]));
    }
    absl::StrAppend(&text, "  ", Digits(plane.weights[i], largest > 0 ? error / largest : HUGE_VAL), " * ",
                    plane.features[i], "\n");
  }
  return absl::StrCat(text, "  ", Digits(plane.bias, error), "\n");
}

// The data and model that a run that resumes must have.
std::vector<std::pair<std::string, std::string>> Facts(const CsvNumbers& table) {
  return {{"columns", absl::CHexEscape(absl::StrCat(absl::StrJoin(table.feature_names, ","), ", and the target ",
                                                    table.target_name))},
          {"rows", absl::StrCat(table.targets.elements())}};
}

}  // namespace

absl::Status CsvRegression::OpenData(ProgramRun& run) {
  ASSIGN_OR_RETURN(numbers_, ReadNumbers(options_));
  if (const int64_t rows = numbers_.targets.elements(); !options_.at_most_all && run.order.batch_size > rows) {
    return absl::InvalidArgumentError(absl::StrCat(options_.path, " has ", Counted(rows, "row"),
                                                   ", fewer than a batch of ", run.order.batch_size,
                                                   "; lower --batch_size"));
  }
  for (const auto& [what, value] : Facts(numbers_)) run.training.metadata[absl::StrCat("csv.", what)] = value;
  ASSIGN_OR_RETURN(moments_, MomentsOf(numbers_));
  target_mean_ = MeanOf(numbers_.targets);
  RETURN_IF_ERROR(CheckDeviations(options_.path, numbers_, moments_, SpreadOf(numbers_.targets, target_mean_)));
  ASSIGN_OR_RETURN(dataset_, data::FromTensors({{"features", Standardise(numbers_.features, moments_)},
                                                {"target", FloatDifferences(numbers_.targets, target_mean_)}}));
  run.train = dataset_.get();
  return absl::OkStatus();
}

// Weights belong to columns, so a run goes on only with the columns and the number of rows of its checkpoint.
absl::Status CsvRegression::Resume(ProgramRun& run) {
  const io::Checkpoint& checkpoint = *run.training.resume;
  for (const auto& [what, value] : Facts(numbers_)) {
    const auto then = checkpoint.metadata.find(absl::StrCat("csv.", what));
    if (then == checkpoint.metadata.end() || then->second == value) continue;
    return absl::FailedPreconditionError(absl::StrCat(options_.path, " has other ", what, " than ", checkpoint.path,
                                                      ": they were ", then->second, " and are ", value,
                                                      "; use the same data, or another --train_dir"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> CsvRegression::MakeOptimizer(const ProgramRun&) const {
  return std::make_unique<optim::GradientDescent>(
      optim::GradientDescentOptions{.learning_rate = options_.learning_rate});
}

absl::StatusOr<Output> CsvRegression::Loss(const Scope& tower, const models::Batch& batch) const {
  return models::LinearRegression(tower, batch["features"], batch["target"]).loss;
}

absl::Status CsvRegression::Result(const ProgramRun& run, Session& session, const Trainer& trainer) {
  const auto read = [&](absl::string_view name) {
    return session.ReadVariable(session.graph().FindVariable(name, run.replicate.first_tower));
  };
  ASSIGN_OR_RETURN(const Tensor weight, read("weight"));
  ASSIGN_OR_RETURN(const Tensor bias, read("bias"));
  plane_ = Unstandardise(weight, bias.scalar<float>(), target_mean_, moments_, numbers_);
  MeasureErrors(numbers_, plane_);
  if (!std::isfinite(plane_.mean_squared_error)) {
    return absl::OutOfRangeError(absl::StrCat(options_.path,
                                              ": the formula in the units of the file has numbers that are "
                                              "too large; scale its columns"));
  }
  plane_.formula = FormulaOf(plane_, numbers_);
  plane_.steps = trainer.steps();
  return absl::OkStatus();
}

}  // namespace belfry::trainers
