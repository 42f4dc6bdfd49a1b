// A physics-informed network (Raissi et al., 2019): learns the damped oscillation u'' + 2 u' + 26 u = 0 with u(0) = 1
// and u'(0) = 0 from the equation alone, and prints its largest error.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "belfry.h"

using namespace belfry;

constexpr int64_t kPoints = 1001;
constexpr double kEnd = 2;

// Times [N, 1] from 0 to the end.
Tensor Times() {
  Tensor times(DType::kFloat32, {kPoints, 1});
  for (int64_t i = 0; i < kPoints; ++i) times.data<float>()[i] = static_cast<float>(kEnd * double(i) / (kPoints - 1));
  return times;
}

// u [N, 1] at times t [N, 1], which begins as it must, whatever the network says. That reads times around 0.
Output Motion(const Scope& scope, Output t) {
  return 1 + Square(t) * models::Mlp(scope, 3 * (t - 1),
                                     {.hidden = {32, 32}, .classes = 1, .activation = models::Activation::kGelu});
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output t = batch["t"], u = Motion(tower, t);
  ASSIGN_OR_RETURN(auto speed, Gradients(tower, {u}, {t}));
  ASSIGN_OR_RETURN(auto acceleration, Gradients(tower, speed, {t}));
  return Mean(Square(acceleration[0] + 2 * speed[0] + 26 * u));
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto times, data::FromTensors({{"t", Times()}}));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*times, {.batch_size = 100, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = optim::Cosine(0.01, /*decay_steps=*/4000)});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);

  const Scope scope = Scope(graph).NameScope("solution").ReuseVariables(Reuse::kAlways);
  Output solution = Motion(scope, ops::Const(scope, Times()));

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 4000}).Run());
  ASSIGN_OR_RETURN(auto result, session->Run({solution}));
  double largest = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    const double t = Times().data<float>()[i], exact = std::exp(-t) * (std::cos(5 * t) + std::sin(5 * t) / 5);
    largest = std::max(largest, std::abs(result[0].data<float>()[i] - exact));
  }
  std::printf("largest error: %.4f\n", largest);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
