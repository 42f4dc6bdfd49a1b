// Linear regression, on seven fixed points or on a CSV file.
#include <cstdio>
#include <limits>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/linear_regression.h"
#include "ops/array.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/common_flags.h"
#include "trainers/csv_regression.h"
#include "trainers/metrics.h"
#include "trainers/trainer.h"

ABSL_FLAG(std::string, device, "/device:cpu:0", "Where the line through the fixed points is computed.");
ABSL_FLAG(int64_t, log_every, 100, "Steps between two lines of the fixed points' output, and of --metrics_file.");
ABSL_FLAG(double, learning_rate, 0.01, "Of gradient descent.");
ABSL_FLAG(std::string, csv, "", "A file of numbers to fit, instead of the fixed points.");
ABSL_FLAG(std::string, target, "", "The column of --csv to predict, by name or by number from 0; empty: the last.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Fits a line or a plane by gradient descent.

  linear_regression
      100,000 steps on seven fixed points, y = w x + b, on one device. Each line of output shows the loss, w and b from
      before that step's update. The answer is w = -0.0974930, b = 9.7242340 with a loss of 15.5821727.
      --metrics_file gets step, loss, w and b. Takes no --batch_size, --batch_size_per_tower, --variable_update, --averager, --seed, --target.

  linear_regression --csv=houses.csv --target=price --devices=cpu:2 --batch_size=64
      Predicts one column of a file from all others, in mini-batches on one tower per device. Features are standardised
      for training (mean 0, deviation 1); the weights printed at the end are those of the file's own units.
      2,000 steps unless --steps says otherwise. Takes no --device.
)";

absl::Status FitFixedPoints(int64_t steps) {
  const Tensor xs = Tensor::Of<float>({1, 23, 4, 5, 7, 5, 7});
  const Tensor outs = Tensor::Of<float>({3, 5, 7, 9, 11, 13, 15});
  const int64_t log_every = absl::GetFlag(FLAGS_log_every);
  RETURN_IF_ERROR(RejectFlags({"batch_size", "batch_size_per_tower", "variable_update", "averager", "seed", "target"},
                              "linear_regression without --csv"));
  ASSIGN_OR_RETURN(const std::string metrics_file, PrepareOutputs());
  ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(metrics_file));

  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices());
  Graph graph;
  const Scope scope = Scope(graph).Device(absl::GetFlag(FLAGS_device));
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {Shape::kUnknown});
  const Output out = ops::Placeholder(scope.Named("out"), DType::kFloat32, {Shape::kUnknown});
  const models::LinearModel model = models::LinearRegression(scope, x, out);
  const optim::GradientDescent optimizer({.learning_rate = absl::GetFlag(FLAGS_learning_rate)});
  const Node* train = optim::ApplyGradients(
      scope, optimizer, optim::ComputeGradients(scope, model.loss, optim::TrainableVariables(scope)));
  const Node* initialize = InitializeVariables(scope);

  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, SessionOptionsFromFlags()));
  RETURN_IF_ERROR(session->RunTarget(initialize));
  ASSIGN_OR_RETURN(const auto step, session->Prepare({{x, xs.shape()}, {out, outs.shape()}},
                                                     {model.loss, model.weight, model.bias}, {train}));
  const std::vector<Tensor> feeds = {xs, outs};
  for (int64_t i = 0; i < steps; ++i) {
    RETURN_IF_ERROR(step->Run(feeds));
    const float loss = step->fetched(0).scalar<float>();
    RETURN_IF_ERROR(CheckLoss(loss, i));
    if (i % log_every != 0 && i + 1 != steps) continue;
    const float w = step->fetched(1).scalar<float>(), b = step->fetched(2).scalar<float>();
    fmt::print("Step {}: loss = {}, w = {}, b = {}\n", i, loss, w, b);
    RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(i)}, {"loss", loss}, {"w", w}, {"b", b}}));
  }
  return absl::OkStatus();
}

absl::Status FitFile(int64_t steps) {
  RETURN_IF_ERROR(RejectFlags({"device"}, "linear_regression with --csv, which runs on --devices"));
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices());
  ASSIGN_OR_RETURN(const int64_t batch_size, GlobalBatchSize(devices));
  ASSIGN_OR_RETURN(const models::ReplicateOptions replicate, ReplicateOptionsFromFlags());
  ASSIGN_OR_RETURN(const std::string metrics_file, PrepareOutputs());
  const CsvRegressionOptions options = {.path = absl::GetFlag(FLAGS_csv),
                                        .target = absl::GetFlag(FLAGS_target),
                                        .steps = steps,
                                        .log_every = absl::GetFlag(FLAGS_log_every),
                                        .batch_size = batch_size,
                                        .learning_rate = absl::GetFlag(FLAGS_learning_rate),
                                        .seed = absl::GetFlag(FLAGS_seed),
                                        .metrics_file = metrics_file,
                                        .replicate = replicate,
                                        .session = SessionOptionsFromFlags()};
  ASSIGN_OR_RETURN(const Plane plane, FitCsv(devices, options));
  if (steps == 0) return absl::OkStatus();
  fmt::print("{} =\n", plane.target);
  for (size_t i = 0; i < plane.weights.size(); ++i) fmt::print("  {:+.6g} * {}\n", plane.weights[i], plane.features[i]);
  fmt::print("  {:+.6g}\nmean squared error {:.6g}, R2 {:.6f}\n", plane.bias, plane.mean_squared_error, plane.r2);
  return absl::OkStatus();
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlag("log_every", absl::GetFlag(FLAGS_log_every), 1, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  const bool fixed_points = absl::GetFlag(FLAGS_csv).empty();
  ASSIGN_OR_RETURN(const int64_t steps, Steps(fixed_points ? 100'000 : 2'000));
  if (steps == 0) fmt::print("Nothing is fitted: --steps=0.\n");
  return fixed_points ? FitFixedPoints(steps) : FitFile(steps);
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  belfry::trainers::ParseCommandLine(argc, argv, belfry::trainers::kUsage, {"data_dir"});
  return belfry::trainers::ExitStatus(belfry::trainers::Run());
}
