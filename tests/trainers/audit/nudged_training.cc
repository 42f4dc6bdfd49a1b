// A training with a fault: in one step, the kernel of one op flips one bit of one number, which stays visible in
// the variables. The plan and the settings that the chain records are those of a training without it, since the step of
// the fault comes from a file.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>

#include "framework/base/status.h"
#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "trainers/flags/command_line.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

struct Options {
  explicit Options(Flags& flags) {
    flags.Add("train_dir", &train_dir, "The directory of the run.");
    flags.Add("data", &data, "A file with a number, from which the data are made.");
    flags.Add("fault", &fault, "A file with the step of the fault; none without it.");
    flags.Add("devices", &devices, "The devices.");
    flags.Add("threads_per_device", &threads_per_device, "Threads of each.");
    flags.Add("replay_request", &replay_request, "ResumeOptions::replay.");
    flags.Add("towers", &towers, "The number of towers.");
    flags.Add("steps", &steps, "The steps of the run.");
    flags.Add("checkpoint_every", &checkpoint_every, "Steps between checkpoints.");
  }

  std::string train_dir, data, fault, devices = "cpu:1", replay_request;
  int threads_per_device = 1, towers = 1;
  int64_t steps = 500, checkpoint_every = 50;
};

constexpr DType kFloat[] = {DType::kFloat32};

// y = x, but for the largest number of tower 0, at the step of the fault.
absl::StatusOr<Kernel> MakeNudge(const KernelSpec& spec, const std::string& file) {
  const int64_t elements = spec.outputs[0].shape.elements();
  const bool here = spec.attrs.Int("replica") == 0;
  int64_t fault = -1;
  std::ifstream(file) >> fault;
  return Kernel{[=](const KernelContext& context) {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    std::copy(x, x + elements, y);
    if (!here || *context.input<int64_t>(1) != fault) return absl::OkStatus();
    float* const largest = std::max_element(y, y + elements);
    *largest = std::bit_cast<float>(std::bit_cast<uint32_t>(*largest) ^ 1u << 16);
    return absl::OkStatus();
  }};
}

Output Nudge(OpScope scope, Output x, int64_t replica) {
  const std::vector<Output> counters = scope.random_counters();
  return scope.Add("Nudge", {x, counters[0]}, {{"replica", replica}});
}

void RegisterNudge(OpRegistry& registry, const std::string& fault) {
  registry.Add(
      {.name = "Nudge",
       .inputs = {{.name = "x"}, {.name = "step", .type = "int64"}},
       .outputs = {{.name = "y"}},
       .types = {{"T", kFloat}},
       .attrs = {{"replica", int64_t{0}}},
       .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> { return std::vector{args.inputs[0]}; },
       .gradient =
           [](const Scope&, const Node&, absl::Span<const Output> dy) {
             return std::vector<Output>{dy[0], Output()};
           },
       .kernels = Kernels<float>("CPU", [fault](auto) -> KernelFactory {
         return [fault](const KernelSpec& spec) { return MakeNudge(spec, fault); };
       })});
}

// Points that depend on the number in the file of the data.
std::unique_ptr<data::Dataset> Points(const std::string& file) {
  constexpr int64_t kCount = 60, kFeatures = 6;
  uint64_t seed = 1;
  std::ifstream(file) >> seed;
  std::mt19937_64 random(seed);
  Tensor points(DType::kFloat32, {kCount, kFeatures}), labels(DType::kInt32, {kCount});
  for (int64_t i = 0; i < kCount * kFeatures; ++i) {
    points.data<float>()[i] = static_cast<float>(random() % 1000) / 500 - 1;
  }
  for (int64_t i = 0; i < kCount; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % 2);
  return data::FromTensors({{"point", points}, {"label", labels, 2}}).value();
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  const Output points = Nudge(tower.Named("nudge"), batch["point"], tower.replica());
  // Enough weights that some are always rounded to another number.
  const Output hidden = ops::Relu(tower, models::Dense(tower, "hidden", points, 512));
  models::AddCrossEntropy(tower, models::Dense(tower, "logits", hidden, 2), batch["label"]);
  return models::TotalLoss(tower);
}

absl::StatusOr<int> Train(const Options& options) {
  ASSIGN_OR_RETURN(const DeviceSet devices,
                   DeviceSet::Open(options.devices, {.cpu_threads = options.threads_per_device}));
  const std::unique_ptr<data::Dataset> dataset = Points(options.data);
  const int towers = options.towers;
  ASSIGN_OR_RETURN(const auto input,
                   data::Prefetcher::Create(*dataset, {.batch_size = 4, .towers = towers, .seed = 1}));
  OpRegistry registry = ops::MakeBuiltinOps();
  RegisterNudge(registry, options.fault);
  Graph graph(registry);
  const optim::Momentum optimizer({.learning_rate = 0.05, .momentum = 0.5});
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, *input, Loss, optimizer,
                              {.micro_batches = towers / static_cast<int>(devices.TowerDevices().size())});
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  const std::string directory = options.train_dir;
  Trainer trainer(*session, step, *input,
                  {.tasks = {.data_paths = {options.data}},
                   .steps = options.steps,
                   .metrics_file = directory.empty() ? "" : directory + "/metrics.jsonl",
                   .quiet = true,
                   .directory = directory,
                   .checkpoint_every = options.checkpoint_every,
                   .keep_checkpoints = 1000,
                   .resume = {.latest = true, .replay = options.replay_request}});
  RETURN_IF_ERROR(trainer.Run());
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  const Options options(flags);
  return RunProgram(argc, argv, "A training with a fault.", flags, [&] { return Train(options); });
}
