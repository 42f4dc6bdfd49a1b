// Learns the values of actions by a deep Q-network (Mnih et al., "Human-level control through deep reinforcement
// learning", 2015): in a corridor of eight cells, of which the last ends the walk with a reward of 1, each step to the
// right of it is worth 0.9 of the next. The goals come from a target network, which copies the other now and then.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "belfry.h"

using namespace belfry;

constexpr int kCells = 8, kSteps = 3000;
constexpr float kDiscount = 0.9f;
enum Action { kLeft, kRight, kActions };

// All steps from cells but the last: where it was, what it did, where it came to, its reward, and whether it goes on.
absl::StatusOr<std::unique_ptr<data::Dataset>> Walks() {
  constexpr int kWalks = (kCells - 1) * kActions;
  Tensor cell(DType::kInt32, {kWalks}), action(DType::kInt32, {kWalks}), next(DType::kInt32, {kWalks});
  Tensor reward(DType::kFloat32, {kWalks}), goes_on(DType::kFloat32, {kWalks});
  for (int i = 0; i < kWalks; ++i) {
    const int at = i / kActions, to = i % kActions == kRight ? at + 1 : std::max(at - 1, 0);
    cell.data<int32_t>()[i] = at, action.data<int32_t>()[i] = i % kActions, next.data<int32_t>()[i] = to;
    reward.data<float>()[i] = to == kCells - 1, goes_on.data<float>()[i] = to != kCells - 1;
  }
  return data::FromTensors(
      {{"cell", cell}, {"action", action}, {"next", next}, {"reward", reward}, {"goes_on", goes_on}});
}

// [N, kActions], by the network whose variables are below `name`.
Output Values(const Scope& scope, absl::string_view name, Output cells) {
  return models::Mlp(scope.Variables(name), ops::OneHot(scope, cells, kCells), {.hidden = {32}, .classes = kActions});
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output taken = Sum(Values(tower, "online", batch["cell"]) * ops::OneHot(tower, batch["action"], kActions), {1});
  Output goal = batch["reward"] + kDiscount * batch["goes_on"] * Max(Values(tower, "target", batch["next"]), {1});
  return Mean(Square(taken - goal));
}

absl::Status Learn() {
  ASSIGN_OR_RETURN(auto walks, Walks());
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*walks, {.batch_size = walks->size(), .towers = 2}));
  Graph graph(BuiltinOps());
  models::ReplicateOptions options;
  options.moving_average = 0.99;
  options.follow = {{.variables = "target/*", .of = "online/*", .decay = 0, .every = 100}};
  optim::Adam adam({.learning_rate = 3e-3});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam, options);
  Output cells = ops::Const(Scope(graph), {0, 1, 2, 3, 4, 5, 6});
  Output learned = Values(step.Averaged(Scope(graph)), "online", cells);
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = kSteps}).Run());
  ASSIGN_OR_RETURN(auto values, session->Run({learned}));
  double error = 0;
  for (int cell = 0; cell < kCells - 1; ++cell) {
    const float left = values[0].data<float>()[kActions * cell], right = values[0].data<float>()[kActions * cell + 1];
    std::printf("cell %d: go %s, which is worth %.2f\n", cell, right > left ? "right" : "left", std::max(left, right));
    error = std::max(error, std::abs(right - std::pow(kDiscount, kCells - 2 - cell)));
  }
  std::printf("The largest error of the values to the right is %.3f.\n", error);
  return absl::OkStatus();
}

int main() {
  absl::Status status = Learn();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
