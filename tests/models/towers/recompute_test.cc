// Training with recomputed activations: the same bits from less memory.

#include "absl/strings/match.h"
#include "framework/runtime/session.h"
#include "models/layers/losses.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/classified_fields.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

class RecomputeTest : public ModelTest {
 protected:
  struct Training {
    Graph graph{BuiltinOps()};
    TrainStep step;
    std::unique_ptr<Session> session;
    std::unique_ptr<PreparedStep> prepared;
    size_t peak() const { return prepared->plan().memory.arena_bytes[0]; }
    // Number of nodes that recompute another one.
    int repeated() const {
      int count = 0;
      for (const ProgramNode& node : prepared->plan().program.nodes) count += absl::EndsWith(node.name, "/again");
      return count;
    }
  };

  static std::unique_ptr<Training> Start(const DeviceSet& devices, const TowerFunction& model, int64_t batch,
                                         const ReplicateOptions& options, Recompute recompute, int64_t edge = 16) {
    auto training = std::make_unique<Training>();
    training->graph.set_seed(3);
    training->step = ReplicateTowers(Scope(training->graph), devices, ClassifiedFields({edge, edge, 3}), model,
                                     optim::Momentum({.learning_rate = 0.05}), options);
    auto session = ValueOf(Session::Create(training->graph, devices, {.recompute = recompute}));
    training->session = std::move(session);
    std::vector<FeedSpec> feeds;
    for (const TrainTower& tower : training->step.towers) {
      feeds.push_back({tower.batch["image"], {batch, edge, edge, 3}});
      feeds.push_back({tower.batch["label"], {batch}});
    }
    auto prepared = ValueOf(training->session->Prepare(feeds, {training->step.loss}, {training->step.update}));
    training->prepared = std::move(prepared);
    return training;
  }

  // Checks that losses and variables are the same, bit by bit, over several steps.
  void ExpectSame(Training& a, Training& b, int64_t batch) {
    ASSERT_TRUE(a.session->RunTarget(a.step.initialize).ok() && b.session->RunTarget(b.step.initialize).ok());
    for (int i = 0; i < 2; ++i) {
      std::vector<Tensor> feeds;
      for (size_t t = 0; t < a.step.towers.size(); ++t) {
        feeds.push_back(Random({batch, 16, 16, 3}));
        feeds.push_back(Classes(batch, 10));
      }
      ASSERT_TRUE(a.prepared->Run(feeds).ok() && b.prepared->Run(feeds).ok());
      EXPECT_EQ(a.prepared->fetched(0).scalar<float>(), b.prepared->fetched(0).scalar<float>());
    }
    for (const Variable& variable : a.graph.variables()) {
      const Tensor x = *a.session->ReadVariable(variable);
      const Tensor y = *b.session->ReadVariable(b.graph.FindVariable(variable.name(), variable.replica()));
      EXPECT_TRUE(SameBits(x, y)) << variable.name();
    }
  }

  static absl::StatusOr<Output> Small(const Scope& tower, const Batch& batch) {
    AddCrossEntropy(tower, ResNet(tower, batch["image"], {.depth = 14}), batch["label"]);
    return TotalLoss(tower);
  }
};

TEST_F(RecomputeTest, ChangesNoBit) {
  const auto with_dropout = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output x = ops::Dropout(tower, ops::Cast(tower, batch["image"], DType::kBFloat16), 0.2);
    AddCrossEntropy(tower, ResNet(tower, x, {.depth = 14}), batch["label"]);
    return TotalLoss(tower);
  };
  const auto tutorial = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, CifarNet(tower, batch["image"]), batch["label"]);
    return TotalLoss(tower);
  };
  const std::vector<Recompute> both = {Recompute::kCheap, Recompute::kSqrt};
  // The tutorial network keeps nothing that kSqrt would recompute.
  const struct {
    int towers;
    TowerFunction model;
    ReplicateOptions options;
    std::vector<Recompute> recompute;
  } runs[] = {{1, Small, {}, both},
              {2, Small, {.batch_norm = BatchNormPolicy::kSynchronised}, both},
              {2, Small, {.variable_update = VariableUpdate::kParameterDevice}, both},
              {2, with_dropout, {.loss_scale = optim::LossScaleOptions()}, both},
              {2, tutorial, {}, {Recompute::kCheap}}};
  for (const auto& run : runs) {
    const DeviceSet devices = DeviceSet::Open("cpu:" + std::to_string(run.towers), {.cpu_threads = 1}).value();
    const auto plain = Start(devices, run.model, 3, run.options, Recompute::kNone);
    EXPECT_EQ(plain->repeated(), 0);
    for (Recompute recompute : run.recompute) {
      const auto again = Start(devices, run.model, 3, run.options, recompute);
      EXPECT_GT(again->repeated(), 0);
      ExpectSame(*plain, *again, 3);
    }
  }
}

TEST_F(RecomputeTest, NeedsLessMemory) {
  const auto deep = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, ResNet(tower, batch["image"], {.depth = 56}), batch["label"]);
    return TotalLoss(tower);
  };
  const auto none = Start(devices_, deep, 128, {}, Recompute::kNone, 32);
  const auto cheap = Start(devices_, deep, 128, {}, Recompute::kCheap, 32);
  const auto sqrt = Start(devices_, deep, 128, {}, Recompute::kSqrt, 32);
  const auto share = [&](const Training& of) {
    return static_cast<double>(of.peak()) / static_cast<double>(none->peak());
  };
  std::printf("ResNet-56, batch 128: %.1f MiB; cheap %.0f%%, sqrt %.0f%%\n",
              static_cast<double>(none->peak()) / 1048576.0, 100 * share(*cheap), 100 * share(*sqrt));
  EXPECT_LT(share(*cheap), 0.8);
  EXPECT_LT(share(*sqrt), 0.4);
}

TEST(ParseRecompute, TakesWhatItSays) {
  EXPECT_EQ(ParseRecompute("none").value(), Recompute::kNone);
  EXPECT_EQ(ParseRecompute("cheap").value(), Recompute::kCheap);
  EXPECT_EQ(ParseRecompute("sqrt").value(), Recompute::kSqrt);
  EXPECT_EQ(ParseRecompute("all").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace belfry::models
