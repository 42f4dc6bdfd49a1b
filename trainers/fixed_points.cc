#include "trainers/fixed_points.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/saver.h"
#include "models/networks/linear_regression.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/loop/trainer_options.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kLogEvery = 100;

// True if the output has the step: by default, so few that all fit on a screen.
bool IsPrinted(int64_t step, int64_t log_every) {
  if (log_every != -1) return step % log_every == 0;
  if (step % kLogEvery != 0) return false;
  int64_t digits = step / kLogEvery;
  while (digits != 0 && digits % 10 == 0) digits /= 10;
  return digits <= 2 || digits == 5;
}

// Checkpoints in the directory of the run; null if it has none.
absl::StatusOr<std::unique_ptr<Checkpointer>> OpenCheckpoints(Session& session, const TrainerOptions& options) {
  if (options.directory.empty()) return nullptr;
  ASSIGN_OR_RETURN(
      io::CheckpointDirectory folder,
      io::CheckpointDirectory::Open(CheckpointFolder(options.directory), {.keep_latest = options.keep_checkpoints}));
  return Checkpointer::Create(session, std::move(folder));
}

// The line, and the step that fits it.
struct Line {
  Graph graph{BuiltinOps()};
  std::unique_ptr<Session> session;
  std::unique_ptr<PreparedStep> step;  // fetches the loss, w and b
  std::vector<Tensor> feeds;
};

// The device that is asked for, or the only one of --devices.
absl::StatusOr<std::string> ChooseDevice(const ProgramFlags& flags, const std::string& device,
                                         const DeviceSet& devices) {
  if (!device.empty()) return device;
  const std::vector<int> towers = devices.TowerDevices();
  if (towers.size() == 1) return devices.device(towers[0]).name().ToString();
  return absl::InvalidArgumentError(absl::StrCat("--devices=", flags.device.devices, " opens ", towers.size(),
                                                 " devices, but one fits the fixed points; choose it by --device, or "
                                                 "give a file by --csv"));
}

absl::StatusOr<std::unique_ptr<Line>> MakeLine(const ProgramFlags& flags, const DeviceSet& devices,
                                               const FixedPointsOptions& options, const io::Checkpoint* resume) {
  ASSIGN_OR_RETURN(const std::string device, ChooseDevice(flags, options.device, devices));
  ASSIGN_OR_RETURN(const SessionOptions session, flags.session.OptionsFor(devices));
  auto made = std::make_unique<Line>();
  const Tensor xs = Tensor::Of<float>({1, 23, 4, 5, 7, 5, 7}), outs = Tensor::Of<float>({3, 5, 7, 9, 11, 13, 15});
  const Scope scope = Scope(made->graph).Device(device);
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {Shape::kUnknown});
  const Output out = ops::Placeholder(scope.Named("out"), DType::kFloat32, {Shape::kUnknown});
  const models::LinearModel line = models::LinearRegression(scope, x, out);
  const optim::GradientDescent optimizer({.learning_rate = options.learning_rate});
  const Node* train = optim::ApplyGradients(
      scope, optimizer, optim::ComputeGradients(scope, line.loss, optim::TrainableVariables(scope)));
  const Node* initialize = InitializeVariables(scope);
  ASSIGN_OR_RETURN(made->session, Session::Create(made->graph, devices, session));
  if (resume != nullptr) {
    RETURN_IF_ERROR(Restore(*made->session, resume->path, resume->tensors).status());
  } else {
    RETURN_IF_ERROR(made->session->RunTarget(initialize));
  }
  ASSIGN_OR_RETURN(made->step, made->session->Prepare({{x, xs.shape()}, {out, outs.shape()}},
                                                      {line.loss, line.weight, line.bias}, {train}));
  made->feeds = {xs, outs};
  return made;
}

}  // namespace

absl::StatusOr<int> FitFixedPoints(const ProgramFlags& flags, World& world, const FixedPointsOptions& options) {
  if (world.size() > 1) {
    return absl::InvalidArgumentError(
        "linear_regression without --csv trains in one process; give it a file by --csv, or start it alone");
  }
  ASSIGN_OR_RETURN(TrainerOptions training, flags.Training(world));
  ASSIGN_OR_RETURN(const std::string metrics_file, flags.PrepareOutputs());
  std::optional<io::Checkpoint> resume;
  RETURN_IF_ERROR(flags.FindCheckpoint(
      {{"--csv", "none", /*fixed=*/true}, {"--learning_rate", absl::StrCat(options.learning_rate)}}, training, resume));
  ASSIGN_OR_RETURN(const DeviceSet devices, flags.session.OpenDevices(world));
  ASSIGN_OR_RETURN(const std::unique_ptr<Line> line, MakeLine(flags, devices, options, training.resume.checkpoint));
  const int64_t first = resume.has_value() ? resume->step : 0, steps = options.steps;
  if (resume.has_value()) {
    const std::string& changed = training.resume.note;
    fmt::print("Resuming from {}, after step {}\n{}", resume->path, first, changed.empty() ? "" : changed + "\n");
  }
  ASSIGN_OR_RETURN(const auto checkpoints, OpenCheckpoints(*line->session, training));
  const bool owns_metrics = flags.metrics_file.empty();
  ASSIGN_OR_RETURN(MetricsWriter metrics,
                   MetricsWriter::Open(metrics_file, owns_metrics ? std::optional(RunStart{first}) : std::nullopt));
  const int64_t log_every = options.log_every == -1 ? kLogEvery : options.log_every;
  const StopSignals signals(flags.max_run_time);
  int stopped = 0;
  int64_t done = first;
  while (done < steps && stopped == 0) {
    const int64_t i = done;
    RETURN_IF_ERROR(line->step->Run(line->feeds));
    const float loss = line->step->fetched(0).scalar<float>();
    RETURN_IF_ERROR(CheckLoss(loss, i));
    ++done;
    stopped = StopSignals::noted();
    const bool last = done == steps || stopped != 0;
    const bool due = training.checkpoint_every > 0 && done % training.checkpoint_every == 0;
    if (checkpoints != nullptr && (due || last)) RETURN_IF_ERROR(checkpoints->Save(done, training.metadata));
    const float w = line->step->fetched(1).scalar<float>(), b = line->step->fetched(2).scalar<float>();
    if (IsPrinted(i, options.log_every) || done == steps) {
      fmt::print("Step {}: loss = {}, w = {}, b = {}\n", i, loss, w, b);
    }
    if (i % log_every != 0 && done != steps) continue;
    RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(i)}, {"loss", loss}, {"w", w}, {"b", b}}));
  }
  if (checkpoints != nullptr) RETURN_IF_ERROR(checkpoints->Finish());
  if (stopped != 0) fmt::print("{}\n", flags.StoppedText(stopped, done));
  if (first >= steps && first > 0) fmt::print("Nothing left to do: {} is at step {}.\n", resume->path, first);
  return stopped;
}

}  // namespace belfry::trainers
