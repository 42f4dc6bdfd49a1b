// A siamese network: learns by pairs of curves which are of one shape, and tells new pairs apart, also of shapes that
// it has never seen. Both curves go through one network; the loss is contrastive (Hadsell et al., 2006).
#include <cmath>
#include <cstdio>
#include <random>

#include "belfry.h"

using namespace belfry;

constexpr int64_t kPoints = 32, kShapes = 40;

// "a" and "b" [N, points], of one shape if "same" is 1. A shape is three waves; a curve of it is moved, scaled and
// noisy.
absl::StatusOr<std::unique_ptr<data::Dataset>> DrawPairs(int64_t n, unsigned first_shape) {
  Tensor a(DType::kFloat32, {n, kPoints}), b(DType::kFloat32, {n, kPoints}), same(DType::kFloat32, {n});
  std::mt19937 random(first_shape);
  std::normal_distribution<float> noise(0, 0.2f);
  const auto draw = [&](float* curve, unsigned shape) {
    std::mt19937 of_shape(shape);
    std::normal_distribution<float> weight;
    const float scale = std::exp(noise(random)), level = noise(random);
    for (int64_t i = 0; i < kPoints; ++i) curve[i] = level + noise(random);
    for (int wave = 1; wave <= 3; ++wave) {
      const float size = weight(of_shape), phase = 3 * weight(of_shape);
      for (int64_t i = 0; i < kPoints; ++i) curve[i] += scale * size * std::sin(0.2f * float(wave * i) + phase);
    }
  };
  for (int64_t i = 0; i < n; ++i) {
    const unsigned shape = first_shape + random() % kShapes, shift = i % 2 == 0 ? 0 : 1 + random() % (kShapes - 1);
    draw(a.data<float>() + i * kPoints, shape);
    draw(b.data<float>() + i * kPoints, first_shape + (shape - first_shape + shift) % kShapes);
    same.data<float>()[i] = shift == 0;
  }
  return data::FromTensors({{"a", a}, {"b", b}, {"same", same}});
}

// The distances [N] between the codes of the pairs. The second code is of the variables of the first.
Output Distance(const Scope& scope, const models::Batch& batch) {
  const auto code = [&](const Scope& at, const char* field) {
    return models::Mlp(at.VariableScope("code"), batch[field], {.hidden = {64}, .classes = 8});
  };
  Output a = code(scope, "a"), b = code(scope.ReuseVariables(Reuse::kAlways), "b");
  return Norm(a - b, 1);
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output d = Distance(tower, batch), same = batch["same"];
  return Mean(same * Square(d) + (1 - same) * Square(Relu(1 - d)));  // others are to be 1 apart
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto pairs, DrawPairs(20'000, /*first_shape=*/0));
  ASSIGN_OR_RETURN(auto others, DrawPairs(1000, /*first_shape=*/kShapes));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*pairs, {.batch_size = 100, .towers = 2}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = 0.001});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);
  const Scope scope = Scope(graph).NameScope("new_pairs").ReuseVariables(Reuse::kAlways);
  const trainers::ModelOutputs distances(scope, others->fields(), Distance);
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 4000}).Run());
  ASSIGN_OR_RETURN(Tensor found, distances.Run(*session, *others, /*batch_size=*/100));
  int right = 0;
  for (int64_t i = 0; i < 1000; ++i) right += (found.data<float>()[i] < 0.5f) == (i % 2 == 0);
  std::printf("pairs of shapes never seen: %d of 1000 told right\n", right);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
