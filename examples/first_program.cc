// Learns to tell points inside a ring from others, with one tower per device, and predicts two new points. The README
// shows parts of this file.
#include <cstdio>
#include <random>

#include "belfry.h"

using namespace belfry;

// The model: points [N, 2] to logits [N, 2], of outside and inside.
Output Model(const Scope& scope, Output points) {
  return models::Mlp(scope, points, {.hidden = {32, 32}, .classes = 2});
}

// The loss of one tower on its share of the batch. Called once per device, with the same variables each time.
absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  return models::AddCrossEntropy(tower, Model(tower, batch["point"]), batch["inside"]);
}

absl::Status Train() {
  // Your data: named tensors [N, ...] of any type. OpenCsv reads a table (framework/data/table/csv.h).
  Tensor points(DType::kFloat32, {2000, 2}), inside(DType::kInt32, {2000});
  std::mt19937 random;
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (int i = 0; i < 2000; ++i) {
    const float x = uniform(random), y = uniform(random), square = x * x + y * y;
    points.data<float>()[2 * i] = x, points.data<float>()[2 * i + 1] = y;
    inside.data<int32_t>()[i] = 1 < square && square < 3;
  }
  ASSIGN_OR_RETURN(auto examples, data::FromTensors({{"point", points}, {"inside", inside}}));

  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));  // or gpu:4, with .towers = 4
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*examples, {.batch_size = 100, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = 0.01});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);

  Scope scope = Scope(graph).NameScope("prediction").ReuseVariables(Reuse::kAlways);
  Output asked = ops::Placeholder(scope, DType::kFloat32, {-1, 2});
  Output answer = Softmax(Model(scope, asked));

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 1000}).Run());
  ASSIGN_OR_RETURN(auto result, session->Run({{asked, Tensor::Of<float>({1.4, 0, 0.1, 0.2}, {2, 2})}}, {answer}));
  std::printf("inside the ring: (1.4, 0) %.0f%%, (0.1, 0.2) %.0f%%\n", 100 * result[0].data<float>()[1],
              100 * result[0].data<float>()[3]);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
