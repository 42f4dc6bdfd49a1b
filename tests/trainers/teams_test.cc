// Trainings give the same losses whatever team of threads OpenMP would give by the program's or the user's settings.
#include <omp.h>
#include <sched.h>

#include <functional>
#include <thread>
#include <vector>

#include "framework/base/cores.h"
#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::ElementsAreArray;

// More than there are cores, so that a dynamic team is smaller.
int Threads() { return 2 * static_cast<int>(AvailableCores().size()); }

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output x = models::Conv2D(tower, "conv1", batch["image"], 32, {3, 3}, {.activation = models::Activation::kRelu});
  x = models::Conv2D(tower, "conv2", x, 32, {1, 1}, {.activation = models::Activation::kRelu});
  x = models::Dense(tower, "dense", models::Flatten(tower, x), 64, {.activation = models::Activation::kRelu});
  models::AddCrossEntropy(tower, models::Dense(tower, "logits", x, 4), batch["label"]);
  return models::TotalLoss(tower);
}

struct Training {
  Training()
      : images(DType::kFloat32, {64, 12, 12, 16}),
        labels(DType::kInt32, {64}),
        devices(ValueOf(DeviceSet::Open("cpu:1", {.cpu_threads = Threads()}))) {
    for (int64_t i = 0; i < images.elements(); ++i) images.data<float>()[i] = static_cast<float>(i % 97) / 97 - 0.5f;
    for (int32_t i = 0; i < 64; ++i) labels.data<int32_t>()[i] = i % 4;
    dataset = ValueOf(data::FromTensors({{"image", images}, {"label", labels, 4}}));
    input = ValueOf(data::Prefetcher::Create(*dataset, {.batch_size = 32}));
    step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, optim::GradientDescent({.learning_rate = 0.1}));
    session = ValueOf(Session::Create(graph, devices));
  }
  // The losses of some steps.
  std::vector<double> Run(int64_t steps) {
    std::vector<double> losses;
    for (int64_t i = 1; i <= steps; ++i) {
      Trainer trainer(*session, step, *input, {.steps = done + i, .quiet = true});
      const absl::Status status = trainer.Run();
      EXPECT_TRUE(status.ok()) << status;
      losses.push_back(trainer.loss());
    }
    done += steps;
    return losses;
  }

  Tensor images, labels;
  DeviceSet devices;
  Graph graph{BuiltinOps()};
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep step;
  std::unique_ptr<Session> session;
  int64_t done = 0;
};

// Calls body on a thread of its own, whose settings of OpenMP end with it.
std::vector<double> OnItsOwnThread(const std::function<std::vector<double>()>& body) {
  std::vector<double> losses;
  std::thread([&] { losses = body(); }).join();
  return losses;
}

class Teams : public ::testing::Test {
 protected:
  const std::vector<double> expected_ = OnItsOwnThread([] { return Training().Run(4); });
};

// The settings stay the program's own.
TEST_F(Teams, DynamicOnesAndWithoutActiveLevels) {
  for (const bool dynamic : {false, true}) {
    const auto losses = OnItsOwnThread([dynamic] {
      dynamic ? omp_set_dynamic(1) : omp_set_max_active_levels(0);
      auto losses = Training().Run(4);
      EXPECT_EQ(omp_get_dynamic(), dynamic ? 1 : 0);
      EXPECT_EQ(omp_get_max_active_levels() == 0, !dynamic);
      return losses;
    });
    EXPECT_THAT(losses, ElementsAreArray(expected_)) << dynamic;
  }
}

TEST_F(Teams, OfAHostThatChangesItsMind) {
  const auto losses = OnItsOwnThread([] {
    Training training;
    auto losses = training.Run(1);
    omp_set_num_threads(1);
    losses.push_back(training.Run(1)[0]);
    omp_set_dynamic(1);
    losses.push_back(training.Run(1)[0]);
    omp_set_max_active_levels(0);
    losses.push_back(training.Run(1)[0]);
    return losses;
  });
  EXPECT_THAT(losses, ElementsAreArray(expected_));
}

TEST_F(Teams, WithinAParallelRegionOfTheHost) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "one thread (OMP_THREAD_LIMIT)";
  std::vector<double> all, later;
  Training before;
  later = before.Run(1);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    EXPECT_TRUE(omp_in_parallel());
    all = Training().Run(4);  // compiled there, too
    for (const double loss : before.Run(3)) later.push_back(loss);
  }
  EXPECT_THAT(all, ElementsAreArray(expected_));
  EXPECT_THAT(later, ElementsAreArray(expected_));
}

TEST_F(Teams, OnCoresThatAreTakenAway) {
  const auto losses = OnItsOwnThread([] {
    omp_set_dynamic(1);
    Training training;
    auto losses = training.Run(1);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(AvailableCores()[0], &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    for (const double loss : training.Run(3)) losses.push_back(loss);
    return losses;
  });
  EXPECT_THAT(losses, ElementsAreArray(expected_));
}

}  // namespace
}  // namespace belfry::trainers
