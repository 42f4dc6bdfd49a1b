// A generative adversarial network (Goodfellow et al., 2014): learns to draw points around the corners of an octagon,
// and prints how many of its points are there. Two training steps under one Trainer; each trains the network of its
// path.
#include <cmath>
#include <cstdio>
#include <random>

#include "belfry.h"

using namespace belfry;

constexpr int kCorners = 8, kCode = 8;
constexpr double kStray = 0.1, kTurn = 2 * M_PI / kCorners;  // the distance of a corner from the centre is 1

Tensor DrawPoints(int64_t n) {
  Tensor points(DType::kFloat32, {n, 2});
  std::mt19937 random;
  std::normal_distribution<double> stray(0, kStray);
  for (int64_t i = 0; i < n; ++i) {
    const auto corner = static_cast<double>(random() % kCorners);
    points.data<float>()[2 * i] = static_cast<float>(std::cos(corner * kTurn) + stray(random));
    points.data<float>()[2 * i + 1] = static_cast<float>(std::sin(corner * kTurn) + stray(random));
  }
  return points;
}

// A network in a tower of either step, whose variables it shares: those below `name`.
Output Network(const Scope& tower, absl::string_view name, Output x, int64_t outputs) {
  const Scope scope = tower.Variables(name).ReuseVariables(Reuse::kIfPresent);
  return models::Mlp(scope, x, {.hidden = {64, 64}, .classes = outputs});
}

Output Generate(const Scope& tower, ops::Extent n) {
  return Network(tower, "generator", ops::RandomNormal(tower, {n, kCode}), 2);
}
// The log loss of the discriminator for points that it is told are real, or made.
Output Judge(const Scope& tower, Output points, bool real) {
  Output logits = Network(tower, "discriminator", points, 1);
  return Mean(Softplus(real ? -logits : logits));
}

absl::StatusOr<Output> DiscriminatorLoss(const Scope& tower, const models::Batch& batch) {
  Output real = batch["point"], made = Generate(tower, ops::Extent::Of(real, 0));
  return Judge(tower, real, true) + Judge(tower, made, false);
}
absl::StatusOr<Output> GeneratorLoss(const Scope& tower, const models::Batch& batch) {
  return Judge(tower, Generate(tower, ops::Extent::Of(batch["point"], 0)), true);
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto points, data::FromTensors({{"point", DrawPoints(10'000)}}));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*points, {.batch_size = 512, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = 1e-3, .beta1 = 0.5});
  const Scope judging = Scope(graph).VariableScope("discriminator"), making = Scope(graph).VariableScope("generator");
  auto judge = models::ReplicateTowers(judging, devices, *input, DiscriminatorLoss, adam);
  auto make = models::ReplicateTowers(making, devices, *input, GeneratorLoss, adam, {.name = "generator"});
  Output drawn = Generate(Scope(graph).NameScope("drawn"), 1000);
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  trainers::TrainerOptions options{.steps = 8000, .alternate_steps = {{.step = &make}}};
  RETURN_IF_ERROR(trainers::Trainer(*session, judge, *input, options).Run());
  ASSIGN_OR_RETURN(auto result, session->Run({drawn}));
  const float* const x = result[0].data<float>();
  for (int corner = 0; corner < kCorners; ++corner) {
    const double at[] = {std::cos(corner * kTurn), std::sin(corner * kTurn)};
    int near = 0;
    for (int i = 0; i < 2000; i += 2) near += std::hypot(x[i] - at[0], x[i + 1] - at[1]) < 3 * kStray;
    std::printf("corner %d: %d of 1000 points are near\n", corner, near);
  }
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
