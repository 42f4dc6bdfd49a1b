// Trains a model of one's own with one tower per device: train_waves [DEVICES], such as cpu:2.
#include <cstdio>
#include <string>

#include "framework/base/status.h"
#include "framework/data/prefetcher.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/check_gradients.h"
#include "framework/runtime/session.h"
#include "lion.h"
#include "models/layers/layers.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/formula.h"
#include "scaled_sine.h"
#include "snake.h"
#include "trainers/program/trainer.h"
#include "waves.h"

using namespace belfry;

// A tower's loss: of x [N, 1] and y [N].
absl::StatusOr<Output> WaveLoss(const Scope& tower, const models::Batch& batch) {
  const Output hidden = Snake(tower, models::Dense(tower, "hidden", batch["x"], 32), /*frequency=*/3);
  const Output guess = models::Dense(tower, "out", hidden, 1);
  return Mean(Square(Squeeze(guess, {1}) - batch["y"]));
}

// Finite differences agree with SnakeGradient.
absl::Status CheckSnake(const OpRegistry& registry) {
  Graph graph(registry);
  const Scope scope(graph);
  const Output x = ops::Placeholder(scope, DType::kFloat64, {5});
  const Output y = Snake(scope, x, 1.5);
  return CheckGradients(scope, {y}, {x}, {{x, Tensor::Of<double>({-2, -0.3, 0, 0.7, 3})}});
}

// The plan of Snake's gradient has the op that the rewrite makes, and neither of those that it takes in.
absl::Status CheckRewrite(const OpRegistry& registry) {
  Graph graph(registry);
  const Scope scope(graph);
  const Output x = ops::Placeholder(scope, DType::kFloat32, {5});
  ASSIGN_OR_RETURN(const std::vector<Output> gradients, Gradients(scope, {Snake(scope, x)}, {x}));
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1"));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  ASSIGN_OR_RETURN(const auto step, session->Prepare({{x, {5}}}, {gradients[0]}));
  int made = 0, left = 0;
  for (const ProgramNode& node : step->plan().program.nodes) {
    made += node.op->name == "ScaledSine";
    left += node.op->name == "Scale" || node.op->name == "Sin";
  }
  if (made == 1 && left == 0) return absl::OkStatus();
  return absl::InternalError("the rewrite did not apply:\n" + step->plan().ToText(devices));
}

absl::Status Train(const std::string& device_list, double* loss) {
  OpRegistry registry = ops::MakeBuiltinOps();
  RegisterSnake(registry);
  RegisterScaledSine(registry);
  RETURN_IF_ERROR(CheckSnake(registry));
  RETURN_IF_ERROR(CheckRewrite(registry));

  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(device_list));
  const Waves waves(512);
  const int towers = static_cast<int>(devices.TowerDevices().size());
  ASSIGN_OR_RETURN(const auto input, data::Prefetcher::Create(waves, {.batch_size = 128, .towers = towers, .seed = 1}));
  Graph graph(registry);
  graph.set_seed(1);
  const Lion lion({.learning_rate = optim::Cosine(0.01, /*decay_steps=*/600), .weight_decay = 1e-3});
  const models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, WaveLoss, lion);
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  trainers::Trainer trainer(*session, step, *input, {.steps = 600});
  RETURN_IF_ERROR(trainer.Run());
  *loss = trainer.loss();
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  double loss = 1;
  const absl::Status status = Train(argc > 1 ? argv[1] : "cpu:2", &loss);
  std::printf("%s, loss %g\n", status.ToString().c_str(), loss);
  return status.ok() && loss < 1e-3 ? 0 : 1;
}
