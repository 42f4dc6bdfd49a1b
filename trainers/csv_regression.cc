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

absl::Status ReadColumns(const CsvRegressionOptions& options, std::vector<CsvColumn>& features, CsvColumn& target) {
  const data::Column to_predict{.name = options.target.empty() ? "-1" : options.target, .largest = kMaxTarget};
  ASSIGN_OR_RETURN(const data::Table table, data::ReadCsv(options.path, {.columns = {to_predict},
                                                                         .others = data::ColumnType::kFloat,
                                                                         .dtype = DType::kFloat64,
                                                                         .max_bytes = options.max_bytes}));
  for (const std::string& warning : table.warnings) spdlog::warn("{}: {}", options.path, warning);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    CsvColumn& column = table.columns[i].largest == kMaxTarget ? target : features.emplace_back();
    column.name = table.columns[i].name;
    column.values = table.values[i];
  }
  if (!features.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.path, ": only column '", target.name, "', the target; expected at least one feature"));
}

// A weight in the file's units is up to the target's spread over the column's deviation, which overflows for a column
// of subnormal numbers, say.
absl::Status CheckDeviation(const std::string& path, const CsvColumn& feature, const CsvColumn& target) {
  if (!std::isfinite(feature.spread)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": column '", feature.name, "': the range of its numbers overflows"));
  }
  if (std::isfinite(target.spread / feature.deviation)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": column '", feature.name, "': its numbers differ by no more than about ", feature.deviation,
                   ", so its weight would exceed the largest number; multiply the column by a constant"));
}

// [N, F] float32: of mean 0 and deviation 1.
Tensor Standardise(const std::vector<CsvColumn>& features) {
  const auto columns = static_cast<int64_t>(features.size());
  Tensor result(DType::kFloat32, {features[0].values.elements(), columns});
  for (int64_t i = 0; i < result.elements(); ++i) {
    const CsvColumn& column = features[i % columns];
    const double value = (column.values.data<double>()[i / columns] - column.mean) / column.deviation;
    result.data<float>()[i] = static_cast<float>(value);
  }
  return result;
}

// [N] float32: the differences from the mean.
Tensor Differences(const CsvColumn& target) {
  Tensor result(DType::kFloat32, target.values.shape());
  for (int64_t i = 0; i < result.elements(); ++i) {
    result.data<float>()[i] = static_cast<float>(target.values.data<double>()[i] - target.mean);
  }
  return result;
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

std::string FormulaOf(const std::vector<CsvColumn>& features, const CsvColumn& target, const Plane& plane) {
  const double spread = target.spread == 0 ? std::abs(target.mean) : target.spread;
  // Each term may contribute its share.
  const double error = kFormulaError * spread / static_cast<double>(features.size() + 1);
  std::string text = absl::StrCat(target.name, " =\n");
  for (size_t i = 0; i < features.size(); ++i) {
    double largest = 0;
    for (const double value : features[i].values.span<double>()) largest = std::max(largest, std::abs(value));
    absl::StrAppend(&text, "  ", Digits(plane.weights[i], largest > 0 ? error / largest : HUGE_VAL), " * ",
                    features[i].name, "\n");
  }
  return absl::StrCat(text, "  ", Digits(plane.bias, error), "\n");
}

// The plane in the file's units, from one for standardised features and differences from the target's mean.
Plane PlaneOf(const Tensor& weight, float bias, const std::vector<CsvColumn>& features, const CsvColumn& target) {
  Plane plane{.bias = bias + target.mean};
  for (size_t i = 0; i < features.size(); ++i) {
    plane.weights.push_back(weight.data<float>()[i] / features[i].deviation);
    plane.bias -= plane.weights[i] * features[i].mean;
  }
  const int64_t rows = target.values.elements();
  double variance = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const double value = target.values.data<double>()[row];
    double error = plane.bias - value;
    for (size_t i = 0; i < features.size(); ++i) error += plane.weights[i] * features[i].values.data<double>()[row];
    plane.mean_squared_error += error * error / rows;
    variance += (value - target.mean) * (value - target.mean) / rows;
  }
  plane.r2 = variance > 0 ? 1 - plane.mean_squared_error / variance : std::nan("");
  plane.formula = FormulaOf(features, target, plane);
  return plane;
}

// The data and model that a run that resumes must have.
std::vector<std::pair<std::string, std::string>> Facts(const std::vector<CsvColumn>& features,
                                                       const CsvColumn& target) {
  const auto add_name = [](std::string* text, const CsvColumn& column) { absl::StrAppend(text, column.name); };
  return {{"columns",
           absl::CHexEscape(absl::StrCat(absl::StrJoin(features, ",", add_name), ", and the target ", target.name))},
          {"rows", absl::StrCat(target.values.elements())}};
}

}  // namespace

absl::Status CsvRegression::Configure(ProgramRun& run) {
  run.training.steps = options_.steps;
  run.training.log_every = options_.log_every;
  run.training.unit = "rows";
  return absl::OkStatus();
}

absl::Status CsvRegression::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(ReadColumns(options_, features_, target_));
  const int64_t rows = target_.values.elements();
  if (options_.at_most_all) {
    run.order.batch_size = std::min(run.order.batch_size, rows);
  } else if (run.order.batch_size > rows) {
    return absl::InvalidArgumentError(absl::StrCat(options_.path, " has ", Counted(rows, "row"),
                                                   ", fewer than a batch of ", run.order.batch_size,
                                                   "; lower --batch_size"));
  }
  for (const auto& [what, value] : Facts(features_, target_)) {
    run.training.metadata[absl::StrCat("csv.", what)] = value;
  }
  static_cast<Moments&>(target_) = MomentsOf(target_.values.span<double>());
  for (CsvColumn& feature : features_) {
    static_cast<Moments&>(feature) = MomentsOf(feature.values.span<double>());
    RETURN_IF_ERROR(CheckDeviation(options_.path, feature, target_));
  }
  ASSIGN_OR_RETURN(dataset_,
                   data::FromTensors({{"features", Standardise(features_)}, {"target", Differences(target_)}}));
  run.train = dataset_.get();
  run.training.tasks.data_paths = {options_.path};
  return absl::OkStatus();
}

std::vector<RunSetting> CsvRegression::Settings(const ProgramRun& /*run*/) const {
  return {{"--csv", "a file", /*fixed=*/true}};  // whose path may change
}

// Weights belong to columns, so a run goes on only with the columns and the number of rows of its checkpoint.
absl::Status CsvRegression::Resume(ProgramRun& run) {
  const io::Checkpoint& checkpoint = *run.training.resume.checkpoint;
  for (const auto& [what, value] : Facts(features_, target_)) {
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
    return session.ReadVariable(
        session.graph().FindVariable(name, run.replicate.first_tower / run.replicate.micro_batches));
  };
  ASSIGN_OR_RETURN(const Tensor weight, read("weight"));
  ASSIGN_OR_RETURN(const Tensor bias, read("bias"));
  plane_ = PlaneOf(weight, bias.scalar<float>(), features_, target_);
  if (!std::isfinite(plane_.mean_squared_error)) {
    return absl::OutOfRangeError(absl::StrCat(options_.path,
                                              ": the formula in the units of the file has numbers that are "
                                              "too large; scale its columns"));
  }
  if (trainer.steps() == 0) return absl::OkStatus();
  fmt::print("{}mean squared error {:.6g}, R2 {}\n", plane_.formula, plane_.mean_squared_error,
             std::isnan(plane_.r2) ? absl::StrCat("undefined, since ", target_.name, " does not vary")
                                   : fmt::format("{:.6f}", plane_.r2));
  return absl::OkStatus();
}

}  // namespace belfry::trainers
