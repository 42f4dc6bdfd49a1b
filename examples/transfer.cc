// Trains a network to name the ring of a point, then a new head on its frozen trunk by few examples: transfer FOLDER
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "belfry.h"

using namespace belfry;

constexpr int kRings = 4, kSteps = 1500, kFew = 200, kFewSteps = 600;

// "point" [2] in a square, and "label": its ring or, for the other task, whether that is an inner one.
std::unique_ptr<data::Dataset> Points(int64_t n, bool inner) {
  Tensor points(DType::kFloat32, {n, 2}), labels(DType::kInt32, {n});
  std::mt19937 random;
  for (int64_t i = 0; i < n; ++i) {
    float* const p = points.data<float>() + 2 * i;
    p[0] = static_cast<float>(random() % 4001) / 1000 - 2, p[1] = static_cast<float>(random() % 4001) / 1000 - 2;
    const int ring = std::min(static_cast<int>(1.5f * std::hypot(p[0], p[1])), kRings - 1);
    labels.data<int32_t>()[i] = inner ? ring < 2 : ring;
  }
  return data::FromTensors({{"point", points}, {"label", labels}}).value();
}

// The trunk's variables have the same names in both networks, the heads' have others.
models::TowerFunction Network(const std::string& head, int classes) {
  return [=](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Scope trunk = tower.VariableScope("trunk");
    Output x = models::BatchNorm(trunk, "norm", models::Dense(trunk, "dense_1", batch["point"], 32));
    x = Relu(models::Dense(trunk, "dense_2", Relu(x), 32));
    models::AddCrossEntropy(tower, models::Dense(tower, head, x, classes), batch["label"]);
    return models::TotalLoss(tower);
  };
}

absl::Status Learn(const std::string& folder) {
  const auto points = Points(4000, false);
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*points, {.batch_size = 100, .towers = 2}));
  Graph graph(BuiltinOps());
  auto step = models::ReplicateTowers(Scope(graph), devices, *input, Network("rings", kRings), optim::AdamW());
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  return trainers::Trainer(*session, step, *input, {.steps = kSteps, .directory = folder}).Run();
}

absl::Status Transfer(const std::string& folder) {
  const auto points = Points(kFew, true);
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*points, {.batch_size = 50, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::AdamW adam({.learning_rate = 0.01, .weight_decay = 0.1});
  models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, *input, Network("inner", 2), adam, {.frozen = {"trunk/*"}});
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  trainers::Trainer first(*session, step, *input, {.steps = 1, .resume = {.init_from = folder}});
  RETURN_IF_ERROR(first.Run());
  trainers::Trainer rest(*session, step, *input, {.steps = kFewSteps});
  RETURN_IF_ERROR(rest.Run());
  ASSIGN_OR_RETURN(auto learned, io::LoadLatestCheckpoint(folder + "/checkpoints"));
  int same = 0, others = 0;
  for (const io::NamedTensor& tensor : learned.tensors) {
    const Variable variable = graph.FindVariable(tensor.name, 0);
    if (!variable.valid() || tensor.name.rfind("trunk/", 0) != 0) continue;
    ASSIGN_OR_RETURN(const Tensor now, session->ReadVariable(variable));
    ++(std::memcmp(now.raw(), tensor.value.raw(), now.bytes()) == 0 ? same : others);
  }
  std::printf("Loss of the new head: %.3f at first, now %.3f. Variables of the trunk: %d as they were, %d others.\n",
              first.loss(), rest.loss(), same, others);
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "rings";
  absl::Status status = Learn(folder);
  if (status.ok()) status = Transfer(folder);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
