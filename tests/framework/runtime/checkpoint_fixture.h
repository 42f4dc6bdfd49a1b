// A small model trained by towers, shared by the tests of checkpoints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/runtime/saver.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry {

// A classifier of 6 numbers with batch norm, trained with Momentum, with a moving average of its weights.
struct Training {
  static constexpr int64_t kInputs = 6, kBatch = 8;

  explicit Training(int towers, const models::ReplicateOptions& options = {.moving_average = 0.9}, uint64_t seed = 3)
      : devices(DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value()) {
    graph.set_seed(seed);
    const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Output x = models::BatchNorm(tower, "norm", models::Dense(tower, "hidden", batch["image"], 5));
      models::AddCrossEntropy(tower, models::Dense(tower, "logits", ops::Relu(tower, x), 3), batch["label"]);
      return models::TotalLoss(tower);
    };
    step = models::ReplicateTowers(Scope(graph), devices, models::ClassifiedFields({kInputs}), model,
                                   optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}), options);
    session = Session::Create(graph, devices).value();
  }

  void Initialize() { ASSERT_EQ(session->RunTarget(step.initialize), absl::OkStatus()); }
  // Step number `n`, on a batch derived from it. Returns the loss.
  float Step(int n) {
    std::vector<Feed> feeds;
    const auto towers = static_cast<int64_t>(step.towers.size());
    for (int64_t t = 0; t < towers; ++t) {
      const int64_t rows = kBatch / towers;
      Tensor inputs(DType::kFloat32, {rows, kInputs}), labels(DType::kInt32, {rows});
      for (int64_t i = 0; i < rows * kInputs; ++i) {
        const int64_t at = t * rows * kInputs + i;
        inputs.data<float>()[i] = static_cast<float>((at * 37 + n * 11) % 23) / 23 - 0.5f;
      }
      for (int64_t i = 0; i < rows; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>((t * rows + i + n) % 3);
      feeds.push_back({step.towers[t].batch["image"], inputs});
      feeds.push_back({step.towers[t].batch["label"], labels});
    }
    return ValueOf(session->Run(feeds, {step.loss}, {step.update})).at(0).scalar<float>();
  }
  std::vector<float> Steps(int begin, int end) {
    std::vector<float> losses;
    for (int n = begin; n < end; ++n) losses.push_back(Step(n));
    return losses;
  }
  Variable Find(absl::string_view name, int replica = 0) { return graph.FindVariable(name, replica); }
  Tensor Value(absl::string_view name, int replica = 0) { return ValueOf(session->ReadVariable(Find(name, replica))); }

  DeviceSet devices;
  Graph graph{BuiltinOps()};
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

}  // namespace belfry
