// Training in several processes that average with NCCL, on a test double of it: their steps are replayed in pieces.
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kProcesses = 2;
// Examples of a tower, in steps of two kinds.
constexpr int64_t kExamples[] = {4, 3};

OpRegistry OpsOnFakes() {
  OpRegistry registry = BuiltinOps();
  AddFakeGpuKernels(registry);
  return registry;
}

absl::StatusOr<Output> TowerLoss(const Scope& tower, const models::Batch& batch) {
  Output x = models::Conv2D(tower, "conv", batch["image"], 5, 3);
  x = ops::Relu(tower, models::BatchNorm(tower, "bn", x));
  x = models::Dropout(tower, "dropout", models::Flatten(tower, x), 0.3, true);
  x = models::Dense(tower, "hidden", x, 7, {.activation = models::Activation::kRelu});
  models::AddCrossEntropy(tower, models::Dense(tower, "logits", x, 3, {.weight_decay = 0.01}), batch["label"]);
  return models::TotalLoss(tower);
}

struct Case {
  int gpus = 1;  // of each process
  bool replay = true;
  models::BatchNormPolicy batch_norm = models::BatchNormPolicy::kPerTower;
  absl::Duration timeout = absl::Seconds(60);
};

// One of the processes.
class Process {
 public:
  Process(World& world, const Case& c, const CollectiveFactory& collectives)
      : first_(world.rank() * c.gpus), devices_(OpenFakeGpus(c.gpus, /*tagged=*/false)) {
    graph_.set_seed(5);
    step_ = models::ReplicateTowers(
        Scope(graph_), devices_, models::ClassifiedFields({6, 5, 2}), TowerLoss,
        optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}),
        {.first_tower = first_, .towers = kProcesses * c.gpus, .batch_norm = c.batch_norm, .bucket_bytes = 700});
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    session_ = Session::Create(graph_, devices_, {.timeout = c.timeout, .collectives = collectives, .replay = c.replay})
                   .value();
  }

  absl::Status Initialize() {
    RETURN_IF_ERROR(session_->RunTarget(step_.initialize));
    for (const int64_t examples : kExamples) {
      std::vector<FeedSpec> specs;
      for (const models::TrainTower& tower : step_.towers) {
        specs.push_back({tower.batch["image"], {examples, 6, 5, 2}});
        specs.push_back({tower.batch["label"], {examples}});
      }
      ASSIGN_OR_RETURN(prepared_.emplace_back(), session_->Prepare(specs, {step_.loss}, {step_.update}));
    }
    return absl::OkStatus();
  }
  // Enqueues a step of a kind, on examples that depend on `number` and the tower.
  absl::Status Start(int kind, int number) {
    std::vector<Tensor> feeds;
    for (size_t t = 0; t < step_.towers.size(); ++t) {
      std::minstd_rand random(TestSeed() + 100 * number + first_ + static_cast<int>(t));
      Tensor images(DType::kFloat32, {kExamples[kind], 6, 5, 2}), labels(DType::kInt32, {kExamples[kind]});
      for (int64_t i = 0; i < images.elements(); ++i) {
        images.data<float>()[i] = static_cast<float>(random() % 1000) / 500 - 1;
      }
      for (int64_t i = 0; i < labels.elements(); ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % 3);
      feeds.push_back(std::move(images));
      feeds.push_back(std::move(labels));
    }
    return prepared_[kind]->Run(feeds);
  }
  absl::Status Run(int kind, int number) {
    RETURN_IF_ERROR(Start(kind, number));
    return prepared_[kind]->Wait();
  }
  float Loss(int kind) { return prepared_[kind]->fetched(0).scalar<float>(); }
  bool replays(int kind) const { return prepared_[kind]->replays(); }
  Device& gpu(int i) { return devices_.device(1 + i); }
  absl::StatusOr<std::vector<Tensor>> Variables() {
    std::vector<Tensor> values;
    for (const models::TrainTower& tower : step_.towers) {
      for (const Variable& variable : tower.variables) {
        ASSIGN_OR_RETURN(values.emplace_back(), session_->ReadVariable(variable));
      }
    }
    return values;
  }

 private:
  const int first_;
  const OpRegistry registry_ = OpsOnFakes();
  Graph graph_{registry_};
  DeviceSet devices_;
  models::TrainStep step_;
  std::unique_ptr<Session> session_;
  std::vector<std::unique_ptr<PreparedStep>> prepared_;  // by kind
};

// Runs `body` in all processes, and returns its statuses.
std::vector<absl::Status> RunProcesses(const Case& c,
                                       const std::function<absl::Status(Process& process, int rank)>& body) {
  const auto first = std::make_shared<FakeNccl>();
  const std::vector<std::shared_ptr<FakeNccl>> nccl = {first, first->InAnotherProcess()};
  auto results = RunRanks(kProcesses, {.tell_failures = true}, [&](World& world) -> absl::Status {
    NcclCollectives all(nccl[world.rank()], world, {{0, c.gpus, 2 * c.gpus}},
                        {.meet_timeout = absl::Seconds(20),
                         .init_timeout = absl::Seconds(20),
                         .drain_timeout = absl::Milliseconds(300)});
    Process process(world, c, [&all](CollectiveSpec spec) { return all.Make(std::move(spec)); });
    RETURN_IF_ERROR(process.Initialize());
    return body(process, world.rank());
  });
  EXPECT_THAT(first->misuse(), IsEmpty());
  EXPECT_EQ(first->live(), 0);
  return results;
}

void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

absl::Status RunUntilReplayed(Process& process) {
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(process.Run(0, i));
  return process.replays(0) ? absl::OkStatus() : absl::InternalError("the step is not replayed");
}

struct Outcome {
  std::vector<float> losses;
  std::vector<Tensor> variables;
};

// The outcome of each process. Steps of two kinds take turns, and some are in flight when the next begins.
std::vector<Outcome> Train(const Case& c) {
  std::vector<Outcome> outcomes(kProcesses);
  ExpectOk(RunProcesses(c, [&](Process& process, int rank) -> absl::Status {
    for (int i = 0; i < 20; ++i) {
      const int kind = i % 3 == 1 ? 1 : 0;
      RETURN_IF_ERROR(process.Start(kind, i));
      if (i % 4 == 3) outcomes[rank].losses.push_back(process.Loss(kind));
    }
    for (const int kind : {0, 1}) EXPECT_EQ(process.replays(kind), c.replay);
    ASSIGN_OR_RETURN(outcomes[rank].variables, process.Variables());
    return absl::OkStatus();
  }));
  return outcomes;
}

class NcclPieces : public testing::TestWithParam<std::pair<int, models::BatchNormPolicy>> {};

TEST_P(NcclPieces, GiveTheBitsOfPlainRuns) {
  Case c{.gpus = GetParam().first, .batch_norm = GetParam().second};
  const std::vector<Outcome> pieces = Train(c);
  c.timeout = absl::InfiniteDuration();  // runs without a deadline take another path
  const std::vector<Outcome> without_deadline = Train(c);
  c.replay = false;
  const std::vector<Outcome> plain = Train(c);
  for (int rank = 0; rank < kProcesses; ++rank) {
    ASSERT_EQ(plain[rank].losses.size(), 5u);
    EXPECT_EQ(pieces[rank].losses, plain[rank].losses);
    EXPECT_EQ(without_deadline[rank].losses, plain[rank].losses);
    ASSERT_GT(plain[rank].variables.size(), 0u);
    for (size_t i = 0; i < plain[rank].variables.size(); ++i) {
      EXPECT_TRUE(SameBits(pieces[rank].variables[i], plain[rank].variables[i])) << i;
      EXPECT_TRUE(SameBits(without_deadline[rank].variables[i], plain[rank].variables[i])) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, NcclPieces,
                         testing::Values(std::pair(1, models::BatchNormPolicy::kPerTower),
                                         std::pair(1, models::BatchNormPolicy::kSynchronised),
                                         std::pair(2, models::BatchNormPolicy::kPerTower),
                                         std::pair(2, models::BatchNormPolicy::kSynchronised)));

TEST(NcclPieces, HaveFewerLaunchesThanPlainRuns) {
  std::vector<FakeGpuLaunches> launches;
  for (const bool replay : {false, true}) {
    ExpectOk(RunProcesses({.replay = replay}, [&](Process& process, int rank) -> absl::Status {
      for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(process.Run(0, i));
      const FakeGpuLaunches before = LaunchesOn(process.gpu(0));
      RETURN_IF_ERROR(process.Run(0, 3));
      const FakeGpuLaunches after = LaunchesOn(process.gpu(0));
      if (rank == 0) launches.push_back({after.kernels - before.kernels, after.graphs - before.graphs});
      return absl::OkStatus();
    }));
  }
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].graphs, 0);
  EXPECT_GT(launches[1].graphs, 1);
  EXPECT_LT(launches[1].graphs, 8);
  EXPECT_GT(launches[1].kernels, 0) << "those of the averages";
  EXPECT_LT(2 * launches[1].kernels, launches[0].kernels);
}

TEST(NcclPieces, AMissingProcessMeetsTheDeadline) {
  std::atomic<bool> zero_ended{false};
  const auto results = RunProcesses({.timeout = absl::Seconds(2)}, [&](Process& process, int rank) -> absl::Status {
    RETURN_IF_ERROR(RunUntilReplayed(process));
    if (rank == 0) {
      const absl::Status status = process.Run(0, 3);
      zero_ended = true;
      return status;
    }
    while (!zero_ended) absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded) << results[0];
  EXPECT_THAT(results[0].message(), HasSubstr("among the GPUs of 2 processes"));
}

TEST(NcclPieces, AFailureInOneEndsAllProcesses) {
  const auto results =
      RunProcesses({.timeout = absl::InfiniteDuration()}, [](Process& process, int rank) -> absl::Status {
        RETURN_IF_ERROR(RunUntilReplayed(process));
        if (rank == 0) FailNextGraph(process.gpu(0));
        return process.Run(0, 3);
      });
  EXPECT_THAT(results[0].message(), HasSubstr("the graph was not launched"));
  EXPECT_THAT(results[1].message(), HasSubstr("the graph was not launched"));
}

}  // namespace
}  // namespace belfry
