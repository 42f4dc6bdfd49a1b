// The distance of two distributions by a critic whose gradient is penalized where it is longer than 1 (Petzka et al.,
// 2018): of points around circles of radius 1 and 3, which are 2 apart. Prints it, and the length of the gradient.
#include <cmath>
#include <cstdio>
#include <random>

#include "belfry.h"

using namespace belfry;

// Points [N, 2] around a circle.
Tensor DrawCircle(int64_t n, float radius, unsigned seed) {
  Tensor points(DType::kFloat32, {n, 2});
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> turn(0, 2 * M_PI);
  std::normal_distribution<float> stray(0, 0.1f);
  for (int64_t i = 0; i < n; ++i) {
    const float angle = static_cast<float>(turn(random)), r = radius + stray(random);
    points.data<float>()[2 * i] = r * std::cos(angle), points.data<float>()[2 * i + 1] = r * std::sin(angle);
  }
  return points;
}

Output Critic(const Scope& scope, Output points) {
  return models::Mlp(scope, points, {.hidden = {64, 64}, .classes = 1, .activation = models::Activation::kSilu});
}

// The margin by which the critic rates outer points higher, and the lengths [N] of its gradients at points between
// pairs.
struct Judgement {
  Output distance, slopes;
};
absl::StatusOr<Judgement> Judge(const Scope& scope, Output inner, Output outer) {
  Output high = Mean(Critic(scope, outer));
  const Scope again = scope.ReuseVariables(Reuse::kAlways);
  Output low = Mean(Critic(again, inner));
  Output share = ops::RandomUniform(scope, {ops::Extent::Of(inner, 0), 1});
  Output between = share * inner + (1 - share) * outer;
  ASSIGN_OR_RETURN(auto gradients, Gradients(scope, {Critic(again, between)}, {between}));
  return Judgement{high - low, Norm(gradients[0], 1)};
}

// The optimizer needs the gradient of this, so the critic is differentiated twice.
absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  ASSIGN_OR_RETURN(Judgement judged, Judge(tower, batch["inner"], batch["outer"]));
  return 100 * Mean(Square(Relu(judged.slopes - 1))) - judged.distance;
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto points, data::FromTensors({{"inner", DrawCircle(10'000, 1, /*seed=*/1)},
                                                   {"outer", DrawCircle(10'000, 3, /*seed=*/2)}}));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*points, {.batch_size = 200, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = optim::Cosine(0.005, /*decay_steps=*/2000)});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);

  const Scope scope = Scope(graph).NameScope("new_points").ReuseVariables(Reuse::kAlways);
  Output inner = ops::Const(scope, DrawCircle(1000, 1, /*seed=*/3));
  Output outer = ops::Const(scope, DrawCircle(1000, 3, /*seed=*/4));
  ASSIGN_OR_RETURN(Judgement judged, Judge(scope, inner, outer));

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 2000}).Run());
  ASSIGN_OR_RETURN(auto result, session->Run({judged.distance, Mean(judged.slopes)}));
  std::printf("distance %.2f, mean length of the gradient %.2f\n", result[0].data<float>()[0],
              result[1].data<float>()[0]);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
