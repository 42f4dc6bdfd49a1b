#include "benchmarks/training_run.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/saver.h"
#include "models/networks/linear_regression.h"
#include "ops/array.h"
#include "optim/adam.h"
#include "optim/apply.h"
#include "optim/descent.h"

namespace belfry::benchmarks {
namespace {

// The nodes to run, and the placeholders to feed.
struct Built {
  std::vector<std::vector<Output>> towers;  // of each tower
  Output loss;
  const Node* update = nullptr;
  const Node* initialize = nullptr;
  models::TrainStep step;  // with towers in series
};

Built BuildScenario5(const Scope& scope) {
  const Output x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  const Output out = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  const models::LinearModel line = models::LinearRegression(scope, x, out);
  const optim::GradientDescent optimizer({.learning_rate = kLearningRate});
  const Node* update =
      optim::ApplyGradients(scope, optimizer, optim::ComputeGradients(scope, line.loss, {line.weight, line.bias}));
  return {.towers = {{x, out}}, .loss = line.loss, .update = update, .initialize = InitializeVariables(scope)};
}

std::unique_ptr<optim::Optimizer> MakeOptimizer(UpdateRule rule, double learning_rate) {
  switch (rule) {
    case UpdateRule::kMomentum:
      return std::make_unique<optim::Momentum>(
          optim::MomentumOptions{.learning_rate = learning_rate, .momentum = kMomentum});
    case UpdateRule::kAdamW:
      // Frameworks add epsilon before or after the correction of bias, which so small a value makes the same.
      return std::make_unique<optim::AdamW>(optim::AdamWOptions{.learning_rate = learning_rate, .epsilon = 1e-12});
    case UpdateRule::kDescent: break;
  }
  return std::make_unique<optim::GradientDescent>(optim::GradientDescentOptions{.learning_rate = learning_rate});
}

Built BuildTowers(const Scope& scope, const DeviceSet& devices, const BenchModel& model, DType dtype, UpdateRule rule,
                  models::ReplicateOptions options) {
  if (dtype == DType::kFloat16 && !options.loss_scale.has_value()) options.loss_scale = optim::LossScaleOptions();
  const auto loss = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    return model.loss(tower, batch, dtype);
  };
  const std::unique_ptr<optim::Optimizer> optimizer = MakeOptimizer(rule, model.learning_rate);
  options.frozen = model.frozen;
  const models::TrainStep step = models::ReplicateTowers(scope, devices, model.fields, loss, *optimizer, options);
  Built built{.loss = step.loss, .update = step.update, .initialize = step.initialize};
  for (const models::TrainTower& tower : step.towers) {
    const absl::Span<const Output> inputs = tower.batch.placeholders();
    built.towers.emplace_back(inputs.begin(), inputs.end());
  }
  built.step = step;
  return built;
}

absl::StatusOr<DType> ComputeDType(const std::string& name, const BenchModel& model) {
  const absl::StatusOr<DType> dtype = ParseDType(name);
  const bool narrow = dtype.ok() && (*dtype == DType::kBFloat16 || *dtype == DType::kFloat16);
  if (dtype.ok() && (*dtype == DType::kFloat32 || (narrow && model.narrow))) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype=", name, ": ", model.name,
                   model.narrow ? " computes in float32, bfloat16 or float16" : " computes in float32 only"));
}

}  // namespace

absl::Status TrainingRun::Open(const TrainingOptions& options) {
  ASSIGN_OR_RETURN(model_, FindModel(options.model));
  ASSIGN_OR_RETURN(devices_, DeviceSet::Open(options.devices, options.device));
  const int64_t towers = static_cast<int64_t>(devices_.TowerDevices().size()) * options.replicate.micro_batches;
  batch_ = options.batch != 0 ? options.batch : model_.batch;
  const bool even = model_.parts || options.replicate.micro_batches > 1;
  if (options.in_first_tower || (batch_ >= towers && (!even || batch_ % towers == 0))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--batch_size=", batch_, " is not a multiple of the ", towers, " towers"));
}

absl::Status TrainingRun::PrepareSeries(const models::TrainStep& step, absl::Span<const Tensor> data) {
  const int64_t count = batch_ / (static_cast<int64_t>(step.towers.size()) * step.micro_batches);
  std::vector<FeedSpec> specs;
  for (const models::TrainTower& tower : step.towers) {
    const absl::Span<const Output> inputs = tower.batch.placeholders();
    for (size_t f = 0; f < data.size(); ++f) {
      specs.push_back({inputs[f], data[f].shape().Remove(0).Insert(0, count)});
    }
    specs.insert(specs.end(), {{tower.index, Shape()}, {tower.first_example, Shape()}});
  }
  ASSIGN_OR_RETURN(accumulate_, session_->Prepare(specs, {}, {step.accumulate}));
  ASSIGN_OR_RETURN(prepared_, session_->Prepare({}, {step.loss}, {step.update}));
  return absl::OkStatus();
}

void TrainingRun::FeedSeries(int64_t towers, int64_t series, absl::Span<const Tensor> data) {
  const int64_t count = batch_ / (towers * series);
  series_.resize(static_cast<size_t>(series));
  for (int64_t tower = 0; tower < towers * series; ++tower) {
    const int64_t index = tower % series, first = tower * count;
    std::vector<Tensor>& feeds = series_[static_cast<size_t>(index)];
    for (const Tensor& field : data) feeds.push_back(Examples(field, first, count));
    feeds.insert(feeds.end(), {Tensor::Of<int64_t>({index}, {}), Tensor::Of<int64_t>({first}, {})});
  }
}

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(const TrainingOptions& options) {
  std::unique_ptr<TrainingRun> run(new TrainingRun);
  RETURN_IF_ERROR(run->Open(options));
  const BenchModel& model = run->model_;
  ASSIGN_OR_RETURN(const DType dtype, ComputeDType(options.dtype, model));
  const std::vector<Tensor> data = BenchData(model, run->batch_);
  const std::vector<int> tower_devices = run->devices_.TowerDevices();
  const auto towers = static_cast<int64_t>(tower_devices.size());
  const Clock::time_point begin = Clock::now();
  const Scope scope(run->graph_);
  const Built built = model.name == "s5" && towers == 1 && options.replicate.micro_batches == 1
                          ? BuildScenario5(scope.Device(run->devices_.device(tower_devices[0]).name().ToString()))
                          : BuildTowers(scope, run->devices_, model, dtype,
                                        options.momentum ? model.update : UpdateRule::kDescent, options.replicate);
  ASSIGN_OR_RETURN(run->session_, Session::Create(run->graph_, run->devices_, options.session));
  if (options.replicate.micro_batches > 1) {
    RETURN_IF_ERROR(run->PrepareSeries(built.step, data));
  } else {
    std::vector<FeedSpec> specs;
    for (int64_t i = 0; i < towers; ++i) {
      const auto before = [&](int64_t tower) {
        return !options.in_first_tower ? tower * run->batch_ / towers : tower > 0 ? run->batch_ : 0;
      };
      const int64_t first = before(i), count = before(i + 1) - first;
      for (size_t f = 0; f < data.size(); ++f) {
        run->feeds_.push_back(Examples(data[f], first, count));
        specs.push_back({built.towers[i][f], run->feeds_.back().shape()});
      }
    }
    ASSIGN_OR_RETURN(run->prepared_, run->session_->Prepare(specs, {built.loss}, {built.update}));
  }
  run->compile_seconds_ = Seconds(begin);
  if (options.replicate.micro_batches > 1) run->FeedSeries(towers, options.replicate.micro_batches, data);
  RETURN_IF_ERROR(run->session_->RunTarget(built.initialize));
  return run;
}

size_t TrainingRun::variable_bytes() const {
  size_t bytes = 0;
  for (const Variable& variable : graph_.variables()) bytes += TensorSpec{variable.dtype(), variable.shape()}.bytes();
  return bytes;
}

size_t TrainingRun::arena_bytes() const {
  const int device = devices_.TowerDevices()[0];
  const size_t bytes = prepared_->plan().memory.arena_bytes[device];
  return accumulate_ == nullptr ? bytes : bytes + accumulate_->plan().memory.arena_bytes[device];
}

absl::Status TrainingRun::Step() {
  for (const std::vector<Tensor>& feeds : series_) RETURN_IF_ERROR(accumulate_->Run(feeds));
  return prepared_->Run(feeds_);
}

absl::StatusOr<std::vector<StepTrace>> TrainingRun::TracedSteps(int count) {
  constexpr int kUntracedSteps = 5;
  for (int i = 0; i < kUntracedSteps; ++i) RETURN_IF_ERROR(Step());
  std::vector<StepTrace> traces(static_cast<size_t>(count));
  for (StepTrace& trace : traces) RETURN_IF_ERROR(TracedStep(trace));
  return traces;
}

absl::StatusOr<std::vector<io::NamedTensor>> TrainingRun::Problem() {
  Snapshot snapshot;
  RETURN_IF_ERROR(snapshot.Take(*session_));
  std::vector<io::NamedTensor> tensors(snapshot.tensors().begin(), snapshot.tensors().end());
  std::vector<Tensor> data = BenchData(model_, batch_);
  for (size_t f = 0; f < data.size(); ++f) tensors.push_back({model_.fields[f].name, std::move(data[f])});
  return tensors;
}

Side SideOf(std::string name, TrainingRun& run) {
  return {.name = std::move(name),
          .step = [&run] { return run.Step(); },
          .items_per_step = static_cast<double>(run.batch() * run.model().units),
          .finish = [&run] { return run.Wait(); }};
}

}  // namespace belfry::benchmarks
