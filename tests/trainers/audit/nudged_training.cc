// A training with a fault: in one step, the kernel of one op moves one number by one unit in the last place. The plan
// and the settings that the chain records are those of a training without it, since the step of the fault comes from a
// file.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "absl/flags/flag.h"
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
#include "trainers/loop/trainer.h"

ABSL_FLAG(std::string, train_dir, "", "The directory of the run.");
ABSL_FLAG(std::string, data, "", "A file with a number, from which the data are made.");
ABSL_FLAG(std::string, fault, "", "A file with the step of the fault; none without it.");
ABSL_FLAG(std::string, devices, "cpu:1", "The devices.");
ABSL_FLAG(int, threads_per_device, 1, "Threads of each.");
ABSL_FLAG(std::string, replay, "", "ResumeOptions::replay.");
ABSL_FLAG(int, towers, 1, "The number of towers.");
ABSL_FLAG(int64_t, steps, 500, "The steps of the run.");
ABSL_FLAG(int64_t, checkpoint_every, 50, "Steps between checkpoints.");

namespace belfry::trainers {
namespace {

constexpr DType kFloat[] = {DType::kFloat32};

// y = x, but for the largest number of tower 0, at the step of the fault.
absl::StatusOr<Kernel> MakeNudge(const KernelSpec& spec) {
  const int64_t elements = spec.outputs[0].shape.elements();
  const bool here = spec.attrs.Int("replica") == 0;
  int64_t fault = -1;
  std::ifstream(absl::GetFlag(FLAGS_fault)) >> fault;
  return Kernel{[=](const KernelContext& context) {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    std::copy(x, x + elements, y);
    if (!here || *context.input<int64_t>(1) != fault) return absl::OkStatus();
    float* const largest = std::max_element(y, y + elements);
    *largest = std::nextafter(*largest, std::numeric_limits<float>::max());
    return absl::OkStatus();
  }};
}

Output Nudge(OpScope scope, Output x, int64_t replica) {
  const std::vector<Output> counters = scope.random_counters();
  return scope.Add("Nudge", {x, counters[0]}, {{"replica", replica}});
}

void RegisterNudge(OpRegistry& registry) {
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
       .kernels = Kernels<float>("CPU", [](auto) { return &MakeNudge; })});
}

// Points that depend on the number in the file of the data.
std::unique_ptr<data::Dataset> Points() {
  constexpr int64_t kCount = 60, kFeatures = 6;
  uint64_t seed = 1;
  std::ifstream(absl::GetFlag(FLAGS_data)) >> seed;
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

absl::Status Train() {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(absl::GetFlag(FLAGS_devices),
                                                            {.cpu_threads = absl::GetFlag(FLAGS_threads_per_device)}));
  const std::unique_ptr<data::Dataset> dataset = Points();
  const int towers = absl::GetFlag(FLAGS_towers);
  ASSIGN_OR_RETURN(const auto input,
                   data::Prefetcher::Create(*dataset, {.batch_size = 4, .towers = towers, .seed = 1}));
  OpRegistry registry = ops::MakeBuiltinOps();
  RegisterNudge(registry);
  Graph graph(registry);
  const optim::Momentum optimizer({.learning_rate = 0.05, .momentum = 0.5});
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, *input, Loss, optimizer,
                              {.series = towers / static_cast<int>(devices.TowerDevices().size())});
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  Trainer trainer(*session, step, *input,
                  {.tasks = {.data_paths = {absl::GetFlag(FLAGS_data)}},
                   .steps = absl::GetFlag(FLAGS_steps),
                   .metrics_file = directory.empty() ? "" : directory + "/metrics.jsonl",
                   .quiet = true,
                   .directory = directory,
                   .checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every),
                   .keep_checkpoints = 1000,
                   .resume = {.latest = true, .replay = absl::GetFlag(FLAGS_replay)}});
  return trainer.Run();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram(argc, argv, "A training with a fault.", [] { return Train(); });
}
