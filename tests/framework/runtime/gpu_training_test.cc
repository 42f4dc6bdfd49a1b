// Training on GPUs compared with training on CPUs: with the kernels of real GPUs, and with the same ones compiled for
// fakes.
#include <cmath>
#include <random>
#include <vector>

#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry {
namespace {

constexpr int kSteps = 12;
constexpr int64_t kBatch = 8;

struct Result {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;  // of every tower
  bool replayed = false;
};

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output x = models::Conv2D(tower, "conv", batch["image"], 6, 3);
  x = ops::Relu(tower, models::BatchNorm(tower, "bn", x));
  x = ops::MaxPool(tower, x);
  x = models::Dense(tower, "hidden", models::Flatten(tower, x), 10, {.activation = models::Activation::kRelu});
  x = models::Dropout(tower, "dropout", x, 0.25, true);
  models::AddCrossEntropy(tower, models::Dense(tower, "logits", x, 3, {.weight_decay = 0.01}), batch["label"]);
  return models::TotalLoss(tower);
}

// Several steps on batches of kBatch examples in all, the same ones whatever the devices.
Result Train(const DeviceSet& devices, bool replay, models::ReplicateOptions options = {}) {
  Result run;
  Graph graph(BuiltinOps());
  graph.set_seed(5);
  options.batch_norm = models::BatchNormPolicy::kSynchronised;
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, models::ClassifiedFields({6, 5, 2}), Loss,
                              optim::Momentum({.learning_rate = 0.05, .momentum = 0.9}), options);
  auto session = Session::Create(graph, devices, {.replay = replay});
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return run;
  const absl::Status initialized = (*session)->RunTarget(step.initialize);
  EXPECT_TRUE(initialized.ok()) << initialized;
  if (!initialized.ok()) return run;
  const int64_t part = kBatch / static_cast<int64_t>(step.towers.size());
  std::vector<FeedSpec> specs;
  for (const models::TrainTower& tower : step.towers) {
    specs.push_back({tower.batch["image"], {part, 6, 5, 2}});
    specs.push_back({tower.batch["label"], {part}});
  }
  auto prepared = (*session)->Prepare(specs, {step.loss}, {step.update});
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  if (!prepared.ok()) return run;
  std::minstd_rand random(7);
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> feeds;
    for (size_t tower = 0; tower < step.towers.size(); ++tower) {
      Tensor images(DType::kFloat32, specs[2 * tower].shape), labels(specs[1].output.dtype(), {part});
      for (int64_t example = 0; example < part; ++example) {
        for (int64_t k = 0; k < 60; ++k) {
          images.data<float>()[example * 60 + k] = static_cast<float>(random() % 1000) / 500 - 1;
        }
        labels.data<int32_t>()[example] = static_cast<int32_t>(random() % 3);
      }
      feeds.push_back(std::move(images));
      feeds.push_back(std::move(labels));
    }
    EXPECT_EQ((*prepared)->Run(feeds), absl::OkStatus());
    run.losses.push_back((*prepared)->fetched(0).scalar<float>());
  }
  run.replayed = (*prepared)->replays();
  for (const models::TrainTower& tower : step.towers) {
    std::vector<double> all;
    for (const Variable& variable : tower.variables) {
      const std::vector<double> values = (*session)->ReadVariable(variable)->ToDoubles();
      all.insert(all.end(), values.begin(), values.end());
    }
    run.weights.push_back(std::move(all));
  }
  return run;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
  }
}

class GpuTraining : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenTestGpus(GetParam())); }
  DeviceSet devices_;
};

TEST_P(GpuTraining, IsThatOfOneCpu) {
  const Result expected = Train(DeviceSet::Open("cpu:1").value(), false);
  const Result actual = Train(devices_, true);
  ExpectNear(actual.losses, expected.losses, 2e-3);
  for (const std::vector<double>& tower : actual.weights) ExpectNear(tower, expected.weights[0], 5e-3);
}

TEST_P(GpuTraining, ReplayedOrNotIsTheSameBitForBit) {
  const Result replayed = Train(devices_, true), plain = Train(devices_, false);
  EXPECT_TRUE(replayed.replayed);
  EXPECT_FALSE(plain.replayed);
  EXPECT_EQ(replayed.losses, plain.losses);
  EXPECT_EQ(replayed.weights, plain.weights);
}

TEST_P(GpuTraining, TowersStayTheSameBitForBit) {
  const Result run = Train(devices_, true);
  for (const std::vector<double>& tower : run.weights) EXPECT_EQ(tower, run.weights[0]);
}

TEST_P(GpuTraining, WithAShardedOptimizerIsTheSameBitForBit) {
  const Result expected = Train(devices_, true);
  const Result actual = Train(devices_, true, {.bucket_bytes = 1024, .shard_optimizer = true});
  EXPECT_EQ(actual.losses, expected.losses);
  for (const std::vector<double>& tower : actual.weights) EXPECT_EQ(tower, expected.weights[0]);
}

TEST_P(GpuTraining, WithVariablesOnTheCpu) {
  const Result expected = Train(DeviceSet::Open("cpu:1").value(), false);
  const Result actual = Train(devices_, true, {.variable_update = models::VariableUpdate::kParameterDevice});
  EXPECT_FALSE(actual.replayed);
  ExpectNear(actual.losses, expected.losses, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Towers, GpuTraining, testing::Values(1, 2, 4));

}  // namespace
}  // namespace belfry
