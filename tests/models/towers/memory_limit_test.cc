// Training within a limit of memory: the same bits from less.

#include <algorithm>

#include "framework/compiler/plan_report.h"
#include "framework/runtime/session.h"
#include "models/layers/cross_entropy.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/layers/recurrent.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

class MemoryLimitTest : public ModelTest {
 protected:
  struct Training {
    Graph graph{BuiltinOps()};
    TrainStep step;
    std::unique_ptr<Session> session;
    std::unique_ptr<PreparedStep> prepared;
    const Plan& plan() const { return prepared->plan(); }
    size_t peak() const {
      return *std::max_element(plan().memory.arena_bytes.begin(), plan().memory.arena_bytes.end());
    }
  };
  struct Case {
    std::vector<data::Field> fields;
    int64_t batch = 0;  // of a tower
    TowerFunction model;
    double share = 0.5;  // of the memory without a limit
    int towers = 1;
    ReplicateOptions options = {};
  };

  static std::unique_ptr<Training> Start(const DeviceSet& devices, const Case& of, size_t arena_limit) {
    auto training = std::make_unique<Training>();
    training->graph.set_seed(3);
    training->step = ReplicateTowers(Scope(training->graph), devices, of.fields, of.model,
                                     optim::Momentum({.learning_rate = 0.05}), of.options);
    auto session = ValueOf(Session::Create(training->graph, devices, {.arena_limit = arena_limit}));
    training->session = std::move(session);
    std::vector<FeedSpec> feeds;
    for (const TrainTower& tower : training->step.towers) {
      for (size_t f = 0; f < of.fields.size(); ++f) {
        feeds.push_back({tower.batch.placeholders()[f], of.fields[f].shape.Insert(0, of.batch)});
      }
    }
    auto prepared = ValueOf(training->session->Prepare(feeds, {training->step.loss}, {training->step.update}));
    training->prepared = std::move(prepared);
    return training;
  }

  std::vector<Tensor> Examples(const Case& of) {
    std::vector<Tensor> examples;
    for (int tower = 0; tower < of.towers; ++tower) {
      for (const data::Field& field : of.fields) {
        const Shape shape = field.shape.Insert(0, of.batch);
        examples.push_back(field.categories > 0
                               ? Classes(shape.elements(), static_cast<int>(field.categories)).Reshaped(shape)
                               : Random(shape));
      }
    }
    return examples;
  }

  // Checks that a plan of that share of the memory has the losses and variables of the plan without a limit, bit by
  // bit.
  void ExpectSame(const Case& of) {
    const DeviceSet devices = DeviceSet::Open("cpu:" + std::to_string(of.towers), {.cpu_threads = 1}).value();
    const auto plain = Start(devices, of, 0);
    EXPECT_EQ(plain->plan().recomputation.nodes, 0);
    const auto limit = static_cast<size_t>(of.share * static_cast<double>(plain->peak()));
    const auto less = Start(devices, of, limit);
    const Recomputation& again = less->plan().recomputation;
    EXPECT_LE(less->peak(), limit) << "of " << plain->peak();
    EXPECT_GT(again.nodes, 0);
    EXPECT_GT(again.share, 0);
    EXPECT_EQ(again.arena_bytes, plain->plan().memory.arena_bytes);
    ASSERT_TRUE(plain->session->RunTarget(plain->step.initialize).ok());
    ASSERT_TRUE(less->session->RunTarget(less->step.initialize).ok());
    for (int i = 0; i < 3; ++i) {
      const std::vector<Tensor> examples = Examples(of);
      ASSERT_TRUE(plain->prepared->Run(examples).ok());
      ASSERT_TRUE(less->prepared->Run(examples).ok());
      EXPECT_TRUE(SameBits(plain->prepared->fetched(0), less->prepared->fetched(0))) << "loss of step " << i;
    }
    for (const Variable& variable : plain->graph.variables()) {
      const Tensor x = *plain->session->ReadVariable(variable);
      const Tensor y = *less->session->ReadVariable(less->graph.FindVariable(variable.name(), variable.replica()));
      EXPECT_TRUE(SameBits(x, y)) << variable.name();
    }
  }

  static std::vector<data::Field> Labelled(Shape shape, Shape labels, int classes) {
    return {{"inputs", DType::kFloat32, std::move(shape)}, {"labels", DType::kInt32, std::move(labels), classes}};
  }
};

TEST_F(MemoryLimitTest, ResNetHasTheSameBits) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, ResNet(tower, batch["inputs"], {.depth = 20}), batch["labels"]);
    return TotalLoss(tower);
  };
  ExpectSame({.fields = Labelled({32, 32, 3}, {}, 10), .batch = 8, .model = model});
  ExpectSame({.fields = Labelled({16, 16, 3}, {}, 10),
              .batch = 16,
              .model = model,
              .share = 0.6,
              .towers = 2,
              .options = {.batch_norm = BatchNormPolicy::kSynchronised}});
}

TEST_F(MemoryLimitTest, ATransformerWithDropoutHasTheSameBits) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const TransformerOptions options{
        .vocabulary = 11, .length = 32, .layers = 4, .heads = 2, .width = 32, .dropout = 0.1};
    AddCrossEntropy(tower, Transformer(tower, batch["tokens"], options), batch["next_tokens"]);
    return TotalLoss(tower);
  };
  const std::vector<data::Field> fields = {{"tokens", DType::kInt32, {32}, 11},
                                           {"next_tokens", DType::kInt32, {32}, 11}};
  ExpectSame({.fields = fields, .batch = 8, .model = model});
}

TEST_F(MemoryLimitTest, AUNetHasTheSameBits) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, UNet(tower, batch["inputs"], {.classes = 2, .width = 4, .depth = 3, .batch_norm = true}),
                    batch["labels"]);
    return TotalLoss(tower);
  };
  ExpectSame({.fields = Labelled({32, 32, 1}, {32, 32}, 2), .batch = 4, .model = model, .share = 0.7});
}

TEST_F(MemoryLimitTest, AnLstmHasTheSameBits) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    Output x = batch["inputs"];
    for (const char* name : {"first", "second", "third"}) {
      x = ops::Dropout(tower, Lstm(tower, name, x, 24).y, 0.1);
    }
    x = Dense(tower, "logits", Flatten(tower, x), 5);
    AddCrossEntropy(tower, x, batch["labels"]);
    return TotalLoss(tower);
  };
  ExpectSame({.fields = Labelled({16, 8}, {}, 5), .batch = 32, .model = model, .share = 0.8});
}

// A limit that no plan meets: the one that needs least, which trains all the same.
TEST_F(MemoryLimitTest, TakesTheLeastIfNothingFits) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, ResNet(tower, batch["inputs"], {.depth = 20}), batch["labels"]);
    return TotalLoss(tower);
  };
  const Case of{.fields = Labelled({16, 16, 3}, {}, 10), .batch = 32, .model = model};
  const size_t peak = Start(devices_, of, 0)->peak();
  const auto least = Start(devices_, of, 1);
  EXPECT_GT(least->peak(), 1u);
  EXPECT_LT(least->peak(), peak / 2);
  ASSERT_TRUE(least->session->RunTarget(least->step.initialize).ok());
  EXPECT_TRUE(least->prepared->Run(Examples(of)).ok());
  EXPECT_THAT(ExplainPlan(least->plan(), std::vector<DeviceMemoryReport>(devices_.size()), devices_),
              testing::ContainsRegex("Recomputation: [0-9]+ ops run again, with .*\n  CPU:0: .*, instead of "));
}

}  // namespace
}  // namespace belfry::models
