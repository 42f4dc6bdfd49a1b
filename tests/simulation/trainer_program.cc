// The program with a Trainer: linear regression of random numbers.
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world_collective.h"
#include "framework/data/prefetcher.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/descent.h"
#include "tests/simulation/program.h"
#include "tests/simulation/random.h"
#include "trainers/audit/check.h"
#include "trainers/audit/run_record.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/program/trainer.h"

namespace belfry::simulation {
namespace {

constexpr int kExamplesOfTower = 2, kBatches = 4;

int Towers(const Scenario& scenario) { return scenario.ranks * scenario.towers; }
int BatchSize(const Scenario& scenario) { return Towers(scenario) * kExamplesOfTower; }

// Examples that are drawn from the seed; for a rank, reading them takes time, and may meet its fault. The last batch of
// an epoch leaves one tower without any.
class Examples final : public data::Dataset {
 public:
  // `rank` is null in one process.
  Examples(const Scenario& scenario, const RankOfRun* rank)
      : scenario_(scenario),
        rank_(rank),
        fields_{{.name = "x", .shape = {scenario.elements}}, {.name = "y", .shape = {}}} {}

  int64_t size() const override { return int64_t{kBatches - 1} * BatchSize(scenario_) + Towers(scenario_) - 1; }
  absl::Span<const data::Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const data::Example& example) const override {
    if (rank_ != nullptr) {
      rank_->scheduler.Compute(scenario_.computing / (scenario_.towers * kExamplesOfTower));
      if (rank_->Meets(Fault::kError)) return InputError();
    }
    Random random(scenario_.seed ^ static_cast<uint64_t>(index) << 32);
    const auto number = [&] { return static_cast<float>(random.Below(1 << 20)) / (1 << 19) - 1; };
    for (int i = 0; i < scenario_.elements; ++i) example.field<float>(0)[i] = number();
    *example.field<float>(1) = number();
    return absl::OkStatus();
  }

 private:
  const Scenario& scenario_;
  const RankOfRun* const rank_;
  const std::vector<data::Field> fields_;
};

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  const Output x = batch["x"];
  const Output weights = GetVariable(tower, "weights", {x.shape()[1]}, UniformInitializer(-1, 1));
  const Output bias = GetVariable(tower, "bias", {}, ZerosInitializer());
  const Output y = ops::Add(tower, ops::Sum(tower, ops::Mul(tower, x, weights), {1}), bias);
  return ops::Mean(tower, ops::SquaredDifference(tower, y, batch["y"]));
}

void Append(const Tensor& value, std::vector<float>& weights) {
  const float* const data = value.data<float>();
  weights.insert(weights.end(), data, data + value.elements());
}

// The model's weights, without the optimizer's.
absl::StatusOr<std::vector<float>> ReadWeights(Session& session, const models::TrainStep& step) {
  std::vector<float> weights;
  std::map<std::string, Variable> variables;
  for (const Variable& variable : step.towers[0].variables) variables.emplace(variable.name(), variable);
  for (const auto& [name, variable] : variables) {
    ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(variable));
    Append(value, weights);
  }
  return weights;
}

// Notes the steps of a run.
class Steps final : public trainers::Callback {
 public:
  explicit Steps(std::function<absl::Status(trainers::TrainingState&)> note) : note_(std::move(note)) {}
  absl::Status OnStart(trainers::TrainingState& state) override { return note_(state); }
  absl::Status OnStep(trainers::TrainingState& state) override { return note_(state); }

 private:
  const std::function<absl::Status(trainers::TrainingState&)> note_;
};

// The objects that a Trainer borrows.
struct Model {
  Graph graph{BuiltinOps()};
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const Scenario& scenario, const DeviceSet& devices,
                                                 const data::Dataset& examples, data::PrefetcherOptions order,
                                                 const models::ReplicateOptions& replicate,
                                                 const SessionOptions& options) {
  auto model = std::make_unique<Model>();
  order.batch_size = BatchSize(scenario);
  order.towers = Towers(scenario);
  order.seed = scenario.seed;
  ASSIGN_OR_RETURN(model->input, data::Prefetcher::Create(examples, std::move(order)));
  model->graph.set_seed(scenario.seed);
  const optim::Momentum optimizer({.learning_rate = 0.1});
  model->step = models::ReplicateTowers(Scope(model->graph), devices, *model->input, Loss, optimizer, replicate);
  ASSIGN_OR_RETURN(model->session, Session::Create(model->graph, devices, options));
  return model;
}

// The norm of the weights stands for a figure on test data.
absl::StatusOr<trainers::Evaluation> Evaluate(const Model& model) {
  ASSIGN_OR_RETURN(const std::vector<float> weights, ReadWeights(*model.session, model.step));
  const double norm = std::inner_product(weights.begin(), weights.end(), weights.begin(), 0.0);
  return trainers::Evaluation{.metrics = {{.name = "norm", .value = norm}}};
}

// The options of a run in several processes.
trainers::TrainerOptions OptionsOf(const RankOfRun& rank) {
  const Scenario& scenario = rank.scenario;
  const std::string& folder = rank.disk.folder();
  trainers::TrainerOptions options{.world = &rank.world, .steps = scenario.steps, .log_every = 2, .quiet = true};
  options.tasks = {.timeout = ToDuration(scenario.timeout), .step_timeout = ToDuration(scenario.step_timeout)};
  options.directory = folder;
  options.metrics_file = absl::StrCat(folder, "/metrics.jsonl");
  options.checkpoint_every = scenario.checkpoint_every;
  options.keep_checkpoints = 3;
  options.check_replicas_every = scenario.check_replicas_every;
  options.evaluate_every = scenario.evaluate_every;
  options.resume.latest = true;
  options.stop = [&rank] { return rank.Meets(Fault::kSignal) ? SIGTERM : 0; };
  return options;
}

}  // namespace

absl::StatusOr<int> RunTrainerProgram(const RankOfRun& rank) {
  const Scenario& scenario = rank.scenario;
  World& world = rank.world;
  const absl::Duration timeout = ToDuration(scenario.timeout);
  ASSIGN_OR_RETURN(const DeviceSet devices, trainers::OpenDevices(world, absl::StrCat("cpu:", scenario.towers),
                                                                  {.cpu_threads = 1, .bind_threads = false}, timeout));
  ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, scenario.towers, SteadyNow() + timeout));
  const int first = towers.first[world.rank()];
  const Examples examples(scenario, &rank);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      MakeModel(scenario, devices, examples, {.first_tower = first, .local_towers = scenario.towers},
                {.first_tower = first,
                 .towers = towers.total(),
                 .bucket_bytes = scenario.bucket_bytes,
                 .shard_optimizer = scenario.shard_optimizer},
                {.timeout = ToDuration(scenario.step_timeout),
                 .collectives = WorldCollectives(world, towers, scenario.sum, scenario.route),
                 .short_step = scenario.threads_of_devices ? absl::ZeroDuration() : absl::InfiniteDuration()}));
  Steps steps([&rank](trainers::TrainingState& state) {
    rank.result.steps = state.steps;
    return absl::OkStatus();
  });
  trainers::TrainerOptions options = OptionsOf(rank);
  if (scenario.evaluate_every > 0) options.evaluate = [&](int64_t) { return Evaluate(*model); };
  options.callbacks = {&steps};
  trainers::Trainer trainer(*model->session, model->step, *model->input, options);
  RETURN_IF_ERROR(trainer.Run());
  ASSIGN_OR_RETURN(rank.result.weights, ReadWeights(*model->session, model->step));
  return trainer.stopped();
}

std::map<int64_t, std::vector<float>> CheckpointsOfTrainerProgram(Disk& disk, std::vector<std::string>& problems) {
  std::map<int64_t, std::vector<float>> checkpoints;
  const auto files = io::ListCheckpoints(trainers::CheckpointFolder(disk.folder()));
  if (!files.ok()) return checkpoints;  // it stopped before there was a folder
  for (const io::CheckpointFile& file : *files) {
    const absl::StatusOr<io::Checkpoint> checkpoint = io::LoadCheckpoint(file.path);
    if (!checkpoint.ok()) {
      problems.emplace_back(checkpoint.status().message());
      continue;
    }
    std::map<std::string, Tensor> tensors;
    for (const io::NamedTensor& tensor : checkpoint->tensors) {
      if (tensor.name == "weights" || tensor.name == "bias") tensors.emplace(tensor.name, tensor.value);
    }
    std::vector<float>& weights = checkpoints[checkpoint->step];
    for (const auto& [name, value] : tensors) Append(value, weights);
  }
  const absl::StatusOr<trainers::RunRecord> record = trainers::ReadRun(disk.folder());
  if (record.ok()) {
    const std::vector<std::string> found = trainers::CheckRun(*record).problems;
    problems.insert(problems.end(), found.begin(), found.end());
  } else if (!absl::IsNotFound(record.status())) {
    problems.emplace_back(record.status().message());
  }
  return checkpoints;
}

std::vector<std::vector<float>> WeightsOfTrainerProgram(const Scenario& scenario, Machine& machine) {
  std::vector<std::vector<float>> weights;
  const auto train = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const DeviceSet devices,
                     DeviceSet::Open(absl::StrCat("cpu:", Towers(scenario)),
                                     {.cpu_threads = 1, .bind_threads = false, .ignore_launcher = true}));
    const Examples examples(scenario, nullptr);
    ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, MakeModel(scenario, devices, examples, {.threads = 0}, {},
                                                                   {.short_step = absl::InfiniteDuration()}));
    Steps steps([&](trainers::TrainingState& state) -> absl::Status {
      ASSIGN_OR_RETURN(weights.emplace_back(), ReadWeights(state.session, state.train_step));
      return absl::OkStatus();
    });
    return trainers::Trainer(*model->session, model->step, *model->input,
                             {.steps = scenario.steps, .quiet = true, .callbacks = {&steps}})
        .Run();
  };
  // It is a process of a scheduler, since fibers start sooner than threads.
  Scheduler scheduler(machine.stacks, scenario.seed, /*switch_every=*/0);
  absl::Status trained = absl::UnknownError("it has not ended");
  scheduler.AddProcess(0, [&] { trained = train(); });
  scheduler.Run(kNever - 1);
  BELFRY_CHECK(trained.ok());
  return weights;
}

}  // namespace belfry::simulation
