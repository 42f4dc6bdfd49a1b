// A small training run for tests: an MLP on points around three centres.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "models/layers/losses.h"
#include "models/layers/metrics.h"
#include "models/networks/mlp.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "trainers/loop/evaluator.h"

namespace belfry::trainers {

inline constexpr int64_t kFeatures = 6;
inline constexpr int32_t kClasses = 3;

// Points around one centre per class, so that a small network separates them.
inline std::unique_ptr<data::Dataset> Blobs(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.5f);
  Tensor inputs(DType::kFloat32, {count, kFeatures}), labels(DType::kInt32, {count});
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int32_t>(random() % kClasses);
    labels.data<int32_t>()[i] = label;
    for (int64_t f = 0; f < kFeatures; ++f) {
      inputs.data<float>()[i * kFeatures + f] = normal(random) + (f % kClasses == label ? 2.0f : 0.0f);
    }
  }
  return data::FromTensors({{"point", inputs}, {"label", labels, kClasses}}).value();
}

// An evaluation that goes by this accuracy.
inline Evaluation Accuracy(double value) {
  return {.metrics = {{.name = "accuracy", .value = value, .larger_is_better = true}}};
}

// A run of an MLP on blobs with the given devices; everything a Trainer borrows.
struct Experiment {
  Experiment(const std::string& spec, int64_t batch, double learning_rate, uint64_t seed = 3, data::Position start = {},
             double momentum = 0, const models::ReplicateOptions& replicate = {}, DType dtype = DType::kFloat32,
             const CollectiveFactory& averager = MakeLocalCollective, double recheck = 0)
      : dataset(Blobs(50, seed)), devices(DeviceSet::Open(spec, {.cpu_threads = 1}).value()) {
    const auto local = static_cast<int>(devices.TowerDevices().size());
    input = data::Prefetcher::Create(*dataset, {.batch_size = batch,
                                                .towers = replicate.towers == 0 ? local : replicate.towers,
                                                .first_tower = replicate.first_tower,
                                                .local_towers = local,
                                                .seed = seed,
                                                .start = start})
                .value();
    const auto model = [dtype](const Scope& tower, const models::Batch& examples) -> absl::StatusOr<Output> {
      const Output x = ops::Cast(tower, examples["point"], dtype);
      const Output logits = models::Mlp(tower, x, {.hidden = {8}, .classes = kClasses});
      models::AddCrossEntropy(tower, logits, examples["label"]);
      tower.AddToCollection(models::kMetrics, models::Accuracy(tower, logits, examples["label"]));
      return models::TotalLoss(tower);
    };
    graph.set_seed(seed);
    const optim::GradientDescent plain({.learning_rate = learning_rate});
    const optim::Momentum with_momentum({.learning_rate = learning_rate, .momentum = momentum});
    const optim::Optimizer& optimizer = momentum > 0 ? static_cast<const optim::Optimizer&>(with_momentum) : plain;
    step = models::ReplicateTowers(Scope(graph), devices, *input, model, optimizer, replicate);
    evaluator = std::make_unique<Evaluator>(
        Scope(graph).NameScope("evaluation").Replica(replicate.first_tower).ReuseVariables(Reuse::kAlways),
        input->fields(), [](const Scope& scope, const models::Batch& batch) -> absl::StatusOr<Output> {
          return models::Mlp(scope, batch["point"], {.hidden = {8}, .classes = kClasses, .training = false});
        });
    session = ValueOf(Session::Create(graph, devices, {.collectives = averager, .recheck = recheck}));
  }

  std::unique_ptr<data::Dataset> dataset;
  DeviceSet devices;
  Graph graph{BuiltinOps()};
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep step;
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<Session> session;
};

}  // namespace belfry::trainers
