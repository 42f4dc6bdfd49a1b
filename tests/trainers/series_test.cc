// Towers in series under a Trainer: on asynchronous devices, and when one of them fails.
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "framework/runtime/saver.h"
#include "framework/runtime/session.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "ops/builtin_ops.h"
#include "optim/adam.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/base/same_bits.h"
#include "tests/main/testing.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSeriesExamples = 45, kSeriesBatch = 19;
constexpr int kSeriesTowers = 8, kSeriesClasses = 3;

// `other_label`: that of one example, which is no class.
std::unique_ptr<data::Dataset> SeriesData(std::optional<int32_t> other_label = {}) {
  std::mt19937 random = TestRandom();
  Tensor x(DType::kFloat32, {kSeriesExamples, 6}), label(DType::kInt32, {kSeriesExamples});
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < kSeriesExamples; ++i)
    label.data<int32_t>()[i] = static_cast<int32_t>(random() % kSeriesClasses);
  if (other_label.has_value()) label.data<int32_t>()[static_cast<int64_t>(random() % kSeriesExamples)] = *other_label;
  return data::FromTensors({{"x", x}, {"label", label}}).value();
}

// A classifier with dropout, whose eight towers the devices share.
struct SeriesProgram {
  SeriesProgram(DeviceSet to, const data::Dataset& dataset) : devices(std::move(to)) {
    AddFakeGpuKernels(registry);
    graph.emplace(registry);
    graph->set_seed(5);
    input = data::Prefetcher::Create(dataset, {.batch_size = kSeriesBatch, .towers = kSeriesTowers, .seed = 3}).value();
    const auto loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Output hidden = models::Dense(tower, "hidden", batch["x"], 16, {.activation = models::Activation::kRelu});
      const Output kept = models::Dropout(tower, "dropout", hidden, 0.2, /*training=*/true);
      models::AddCrossEntropy(tower, models::Dense(tower, "logits", kept, kSeriesClasses), batch["label"]);
      return models::TotalLoss(tower);
    };
    const int series = kSeriesTowers / static_cast<int>(devices.TowerDevices().size());
    step = models::ReplicateTowers(Scope(*graph), devices, *input, loss, optim::Adam({.learning_rate = 0.01}),
                                   {.micro_batches = series, .clip_global_norm = 0.5});
    SessionOptions options;
    if (devices.device(devices.TowerDevices()[0]).type() == "GPU") options.collectives = MakeFakeGpuCollective;
    session = Session::Create(*graph, devices, options).value();
  }

  absl::Status Train(int64_t steps, std::function<int()> stop = {}) {
    Trainer trainer(*session, step, *input, {.steps = steps, .quiet = true, .stop = std::move(stop)});
    return trainer.Run();
  }
  std::vector<io::NamedTensor> Variables() const {
    Snapshot snapshot;
    EXPECT_TRUE(snapshot.Take(*session).ok());
    return {snapshot.tensors().begin(), snapshot.tensors().end()};
  }

  DeviceSet devices;
  OpRegistry registry = BuiltinOps();
  std::optional<Graph> graph;
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

DeviceSet Cpus(int count) { return DeviceSet::Open("cpu:" + std::to_string(count), {.cpu_threads = 1}).value(); }

TEST(TrainerSeries, AsynchronousDevicesHaveTheBitsOfTowersSideBySide) {
  const auto dataset = SeriesData();
  SeriesProgram side_by_side(Cpus(kSeriesTowers), *dataset);
  ASSERT_TRUE(side_by_side.Train(20).ok());
  const auto expected = side_by_side.Variables();
  for (const int gpus : {1, 2, 4}) {
    SeriesProgram program(OpenFakeGpus(gpus), *dataset);
    ASSERT_EQ(program.Train(20), absl::OkStatus());
    const auto actual = program.Variables();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].name, expected[i].name);
      EXPECT_TRUE(SameBits(actual[i].value, expected[i].value)) << gpus << " GPUs, " << actual[i].name;
    }
  }
}

// A label that is no class fails the run of one tower; the update of its step must not follow.
TEST(TrainerSeries, ATowerThatFailsEndsTheRunBeforeTheUpdate) {
  for (const bool gpu : {false, true}) {
    const auto bad = SeriesData(kSeriesClasses);
    SeriesProgram program(gpu ? OpenFakeGpus(2) : Cpus(2), *bad);
    ASSERT_TRUE(program.session->RunTarget(program.step.initialize).ok());
    int64_t done = 0;
    const absl::Status status = program.Train(20, [&] {
      ++done;
      return 0;
    });
    EXPECT_THAT(status.message(), HasSubstr("label")) << status;
    EXPECT_FALSE(status.ok());
    const Tensor step = program.session->ReadVariable(program.step.global_step).value();
    EXPECT_EQ(step.scalar<int64_t>(), done) << (gpu ? "GPU" : "CPU") << ": updates without their towers";
  }
}

}  // namespace
}  // namespace belfry::trainers
