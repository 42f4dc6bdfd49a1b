// Linear regression of seven fixed points, or of a CSV file.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/saver.h"
#include "models/linear_regression.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/csv_regression.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/compute_flags.h"
#include "trainers/flags/output_flags.h"
#include "trainers/flags/replication_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/step_flags.h"
#include "trainers/flags/training_flags.h"
#include "trainers/flags/world_flags.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/loop/trainer.h"

ABSL_FLAG(std::string, device, "",
          "Device that fits the fixed points, such as /cpu:1. Default: the one that --devices opens.");
ABSL_FLAG(int64_t, log_every, -1,
          "Steps between lines of --metrics_file and, for the fixed points, of the output. -1: 100, and the output has "
          "steps 0, 100, 200, 500, 1000, 2000 and so on.");
ABSL_FLAG(double, learning_rate, 0.01, "Learning rate of gradient descent.");
ABSL_FLAG(std::string, csv, "", "CSV file of numbers to fit instead of the fixed points.");
ABSL_FLAG(int64_t, csv_limit, 1 << 30, "Largest size of --csv in bytes; memory must hold several times as much.");
ABSL_FLAG(std::string, target, "", "Column of --csv to predict, by name or by number from 0. Default: the last one.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Fits a line or a plane by gradient descent.

  linear_regression
      100,000 steps on seven fixed points, y = w x + b, on one device. Lines of output show the loss, w and b before
      the update of that step; --log_every=N prints every Nth step. They converge to w = -0.0974930, b = 9.7242340
      with a loss of 15.5821727.
      --metrics_file records step, loss, w and b. These flags do not apply: --batch_size, --batch_size_per_tower,
      --variable_update, --averager, --seed, --target, --summary_every, --check_replicas_every, --trace.

  linear_regression --csv=houses.csv --target=price --devices=cpu:2 --batch_size=64
      Predicts one column of a file from all others, in mini-batches with one tower per device. Features are standardised
      for training (mean 0, deviation 1), and the target is counted from its mean; the formula printed at the end is in
      the units of the file, with as many digits as its predictions need. The default is 2,000 steps. --device does not
      apply.

With --train_dir both save checkpoints, stop cleanly on Ctrl-C, and resume where they stopped.
)";

constexpr int64_t kLogEvery = 100;

// --log_every, or its default.
int64_t LogEvery() {
  const int64_t every = absl::GetFlag(FLAGS_log_every);
  return every == -1 ? kLogEvery : every;
}

// Whether the output has the step: without --log_every, so few that all fit on a screen.
bool IsPrinted(int64_t step) {
  if (step % LogEvery() != 0 || absl::GetFlag(FLAGS_log_every) != -1) return step % LogEvery() == 0;
  int64_t digits = step / kLogEvery;
  while (digits != 0 && digits % 10 == 0) digits /= 10;
  return digits <= 2 || digits == 5;
}

// Checkpoints of the fixed points' loop in --train_dir; null if it is not set.
absl::StatusOr<std::unique_ptr<Checkpointer>> OpenCheckpoints(Session& session) {
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  if (directory.empty()) return nullptr;
  ASSIGN_OR_RETURN(io::CheckpointDirectory folder,
                   io::CheckpointDirectory::Open(CheckpointFolder(directory),
                                                 {.keep_latest = absl::GetFlag(FLAGS_keep_checkpoints)}));
  return Checkpointer::Create(session, std::move(folder));
}

// --device, or the only one of --devices.
absl::StatusOr<std::string> DeviceOfFixedPoints(const DeviceSet& devices) {
  if (const std::string device = absl::GetFlag(FLAGS_device); !device.empty()) return device;
  const std::vector<int> towers = devices.TowerDevices();
  if (towers.size() == 1) return devices.device(towers[0]).name().ToString();
  return absl::InvalidArgumentError(absl::StrCat("--devices=", absl::GetFlag(FLAGS_devices), " opens ", towers.size(),
                                                 " devices, but one fits the fixed points; choose it by --device, or "
                                                 "give a file by --csv"));
}

// Those of both kinds of run; `csv` says which it is. Paths may change.
std::vector<RunSetting> Settings(const std::string& csv) {
  return {{"--csv", csv, /*fixed=*/true}, {"--learning_rate", absl::StrCat(absl::GetFlag(FLAGS_learning_rate))}};
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> FitFixedPoints(World& world, int64_t steps) {
  if (world.size() > 1) {
    return absl::InvalidArgumentError(
        "linear_regression without --csv trains in one process; give it a file by --csv, or start it alone");
  }
  const Tensor xs = Tensor::Of<float>({1, 23, 4, 5, 7, 5, 7});
  const Tensor outs = Tensor::Of<float>({3, 5, 7, 9, 11, 13, 15});
  RETURN_IF_ERROR(RejectFlags({"batch_size", "batch_size_per_tower", "variable_update", "averager", "seed", "target",
                               "summary_every", "check_replicas_every", "trace"},
                              "linear_regression without --csv"));
  TrainerOptions checked;
  RETURN_IF_ERROR(SetTrainerOptions(checked, world));
  ASSIGN_OR_RETURN(const std::string metrics_file, PrepareOutputs());
  const std::vector<RunSetting> settings = Settings("none");
  const io::Metadata metadata = RecordSettings(settings);
  ASSIGN_OR_RETURN(const std::optional<io::Checkpoint> checkpoint, FindCheckpoint(settings));
  const int64_t first = checkpoint.has_value() ? checkpoint->step : 0;
  if (checkpoint.has_value()) {
    const std::string changed = ChangedSettings(checkpoint->metadata, settings);
    fmt::print("Resuming from {}, after step {}\n{}", checkpoint->path, first, changed.empty() ? "" : changed + "\n");
  }

  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices());
  ASSIGN_OR_RETURN(const std::string device, DeviceOfFixedPoints(devices));
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device(device);
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {Shape::kUnknown});
  const Output out = ops::Placeholder(scope.Named("out"), DType::kFloat32, {Shape::kUnknown});
  const models::LinearModel line = models::LinearRegression(scope, x, out);
  const optim::GradientDescent optimizer({.learning_rate = absl::GetFlag(FLAGS_learning_rate)});
  const Node* train = optim::ApplyGradients(
      scope, optimizer, optim::ComputeGradients(scope, line.loss, optim::TrainableVariables(scope)));
  const Node* initialize = InitializeVariables(scope);

  ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, options));
  if (checkpoint.has_value()) {
    RETURN_IF_ERROR(Restore(*session, checkpoint->path, checkpoint->tensors).status());
  } else {
    RETURN_IF_ERROR(session->RunTarget(initialize));
  }
  ASSIGN_OR_RETURN(const auto checkpoints, OpenCheckpoints(*session));
  const bool in_train_dir = absl::GetFlag(FLAGS_metrics_file).empty();
  ASSIGN_OR_RETURN(MetricsWriter metrics,
                   MetricsWriter::Open(metrics_file, in_train_dir ? std::optional(RunStart{first}) : std::nullopt));
  ASSIGN_OR_RETURN(const auto step, session->Prepare({{x, xs.shape()}, {out, outs.shape()}},
                                                     {line.loss, line.weight, line.bias}, {train}));
  const std::vector<Tensor> feeds = {xs, outs};
  const StopSignals signals;
  int stopped = 0;
  int64_t done = steps;
  for (int64_t i = first; i < steps && stopped == 0; ++i) {
    RETURN_IF_ERROR(step->Run(feeds));
    const float loss = step->fetched(0).scalar<float>();
    RETURN_IF_ERROR(CheckLoss(loss, i));
    stopped = StopSignals::noted();
    const bool last = i + 1 == steps || stopped != 0;
    const bool due = checked.checkpoint_every > 0 && (i + 1) % checked.checkpoint_every == 0;
    if (checkpoints != nullptr && (due || last)) RETURN_IF_ERROR(checkpoints->Save(i + 1, metadata));
    if (stopped != 0) done = i + 1;
    const float w = step->fetched(1).scalar<float>(), b = step->fetched(2).scalar<float>();
    if (IsPrinted(i) || i + 1 == steps) fmt::print("Step {}: loss = {}, w = {}, b = {}\n", i, loss, w, b);
    if (i % LogEvery() != 0 && i + 1 != steps) continue;
    RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(i)}, {"loss", loss}, {"w", w}, {"b", b}}));
  }
  if (checkpoints != nullptr) RETURN_IF_ERROR(checkpoints->Finish());
  if (stopped != 0) fmt::print("{}\n", StoppedText(stopped, done));
  if (first >= steps && first > 0) fmt::print("Nothing left to do: {} is at step {}.\n", checkpoint->path, first);
  return stopped;
}

absl::StatusOr<int> FitFile(World& world, int64_t steps) {
  RETURN_IF_ERROR(CheckFlag("csv_limit", absl::GetFlag(FLAGS_csv_limit), 1, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(RejectFlags({"device"}, "linear_regression with --csv, which uses --devices"));
  TrainerOptions training;
  RETURN_IF_ERROR(SetTrainerOptions(training, world));
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices(world));
  CsvRegressionOptions options{.path = absl::GetFlag(FLAGS_csv),
                               .max_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_csv_limit)),
                               .target = absl::GetFlag(FLAGS_target),
                               .learning_rate = absl::GetFlag(FLAGS_learning_rate),
                               .seed = absl::GetFlag(FLAGS_seed),
                               .training = std::move(training)};
  ASSIGN_OR_RETURN(options.session, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(options.replicate, ReplicateOptionsFromFlags(devices, world, options.session));
  ASSIGN_OR_RETURN(options.batch_size, GlobalBatchSize(options.replicate.towers));
  options.at_most_all = RejectFlags({"batch_size", "batch_size_per_tower"}, "").ok();
  const bool prints = world.rank() == 0;
  if (options.replicate.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"train_dir"}, "a run with --variable_update=independent, whose towers differ"));
  }
  if (prints) {
    ASSIGN_OR_RETURN(options.training.metrics_file, PrepareOutputs());
  }
  options.training.steps = steps;
  options.training.log_every = LogEvery();
  options.training.unit = "rows";
  std::vector<RunSetting> settings = Settings("a file");
  settings.push_back({"--batch_size", absl::StrCat(options.batch_size), /*fixed=*/true});
  settings.push_back({"--seed", absl::StrCat(options.seed), /*fixed=*/true});
  options.training.metadata = RecordSettings(settings);
  ASSIGN_OR_RETURN(const std::optional<io::Checkpoint> checkpoint, FindCheckpoint(settings, world));
  if (checkpoint.has_value()) {
    options.training.resume = &*checkpoint;
    options.training.resume_note = ChangedSettings(checkpoint->metadata, settings);
  }
  const StopSignals signals;
  ASSIGN_OR_RETURN(const Plane plane, FitCsv(devices, options));
  if (!prints) return plane.stopped;
  if (plane.stopped != 0) fmt::print("{}\n", StoppedText(plane.stopped, plane.steps));
  if (plane.steps == 0) return 0;
  fmt::print("{}mean squared error {:.6g}, R2 {}\n", plane.formula, plane.mean_squared_error,
             std::isnan(plane.r2) ? absl::StrCat("undefined, since ", plane.target, " does not vary")
                                  : fmt::format("{:.6f}", plane.r2));
  return plane.stopped;
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> Run(World& world) {
  RETURN_IF_ERROR(CheckFlag("log_every", LogEvery(), 1, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  const bool fixed_points = absl::GetFlag(FLAGS_csv).empty();
  ASSIGN_OR_RETURN(const int64_t steps, Steps(fixed_points ? 100'000 : 2'000));
  if (steps == 0 && world.rank() == 0) fmt::print("Nothing was fitted: --steps=0.\n");
  return fixed_points ? FitFixedPoints(world, steps) : FitFile(world, steps);
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram([&] {
    ParseCommandLine(argc, argv, kUsage);
    return RunInWorld(Run);
  });
}
