// Towers with a scaled loss: steps that overflow, and networks in float16.
#include "optim/loss_scale.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <functional>
#include <limits>

#include "framework/base/status.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/networks/linear_regression.h"
#include "models/towers/replicate_towers.h"
#include "models/towers/summaries.h"
#include "ops/summary.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/models/classified_fields.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kEdge = 6, kChannels = 2;
constexpr int kClasses = 3;

class ScaledLoss : public ModelTest {
 protected:
  struct Training {
    DeviceSet devices;
    std::unique_ptr<Graph> graph = std::make_unique<Graph>(BuiltinOps());
    TrainStep step;
    std::unique_ptr<Session> session;
  };

  // A convolution with batch norm and a linear layer, computed in `dtype`.
  static TowerFunction ConvNet(DType dtype) {
    return [dtype](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
      Output x = ops::Cast(tower, batch["image"], dtype);
      x = ops::Relu(tower, BatchNorm(tower, "bn", Conv2D(tower, "conv", x, 8, 3), {.momentum = 0.8}));
      x = Dense(tower, "logits", Flatten(tower, MaxPool(tower, "pool", x)), kClasses, {.weight_decay = 1e-4});
      AddCrossEntropy(tower, x, batch["label"]);
      return TotalLoss(tower);
    };
  }

  static Training Start(int towers, DType dtype, const ReplicateOptions& options) {
    Training training{.devices = DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value()};
    training.graph->set_seed(3);
    training.step =
        ReplicateTowers(Scope(*training.graph), training.devices, ClassifiedFields({kEdge, kEdge, kChannels}),
                        ConvNet(dtype), optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}), options);
    auto session = Session::Create(*training.graph, training.devices);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return training;
    training.session = *std::move(session);
    EXPECT_TRUE(training.session->RunTarget(training.step.initialize).ok());
    return training;
  }

  // Images whose class is the position of their bright corner.
  void MakeBatch(int64_t n, Tensor& images, Tensor& labels) {
    images = Random({n, kEdge, kEdge, kChannels});
    labels = Classes(n, kClasses);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t label = labels.data<int32_t>()[i];
      const int64_t y = label == 0 ? 0 : 4, x = label == 1 ? 0 : 4;
      images.data<float>()[((i * kEdge + y) * kEdge + x) * kChannels] += 4;
    }
  }

  static float Step(Training& training, const Tensor& images, const Tensor& labels) {
    const auto towers = static_cast<int64_t>(training.step.towers.size());
    const int64_t share = labels.elements() / towers, values = share * kEdge * kEdge * kChannels;
    std::vector<Feed> feeds;
    for (int64_t t = 0; t < towers; ++t) {
      const Batch& batch = training.step.towers[t].batch;
      feeds.push_back({batch["image"], Tensor::Of<float>(images.span<float>().subspan(t * values, values),
                                                         {share, kEdge, kEdge, kChannels})});
      feeds.push_back({batch["label"], Tensor::Of<int32_t>(labels.span<int32_t>().subspan(t * share, share), {share})});
    }
    const auto fetched = training.session->Run(feeds, {training.step.loss}, {training.step.update});
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    return fetched.ok() ? (*fetched)[0].scalar<float>() : NAN;
  }

  static std::vector<double> Value(const Training& training, const Variable& variable) {
    return training.session->ReadVariable(variable)->ToDoubles();
  }
  static std::vector<std::vector<double>> Values(const Training& training) {
    std::vector<std::vector<double>> values;
    for (const Variable& variable : training.graph->variables()) values.push_back(Value(training, variable));
    return values;
  }
};

TEST_F(ScaledLoss, ASkippedStepChangesNoVariable) {
  for (int towers : {1, 2, 4}) {
    for (VariableUpdate update :
         {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice, VariableUpdate::kIndependent}) {
      for (BatchNormPolicy policy : {BatchNormPolicy::kPerTower, BatchNormPolicy::kSynchronised}) {
        if (policy == BatchNormPolicy::kSynchronised && update == VariableUpdate::kIndependent) continue;
        SCOPED_TRACE(testing::Message() << towers << " towers, update " << static_cast<int>(update) << ", batch norm "
                                        << static_cast<int>(policy));
        Training training = Start(towers, DType::kFloat32,
                                  {.variable_update = update,
                                   .batch_norm = policy,
                                   .clip_global_norm = 1,
                                   .moving_average = 0.9,
                                   .loss_scale = optim::LossScaleOptions{.initial = 256}});
        Tensor images, labels;
        MakeBatch(8, images, labels);
        Step(training, images, labels);
        const auto before = Values(training);
        // The last tower's examples; with independent towers, every tower's.
        const bool alone = update == VariableUpdate::kIndependent;
        for (int t = alone ? 0 : towers - 1; t < towers; ++t) {
          const int64_t last = (t + 1) * images.elements() / towers - 1;
          images.data<float>()[last] = std::numeric_limits<float>::infinity();
        }
        Step(training, images, labels);
        const auto after = Values(training);
        for (size_t i = 0; i < before.size(); ++i) {
          const Variable variable = training.graph->variables()[i];
          if (variable.name() == "loss_scale") {
            EXPECT_EQ(after[i][0], 128) << variable.replica();
          } else if (variable.name() == "loss_scale/skipped_steps") {
            EXPECT_EQ(after[i][0], 1) << variable.replica();
          } else if (variable.name() == "loss_scale/good_steps") {
            EXPECT_EQ(before[i][0], 1) << variable.replica();
            EXPECT_EQ(after[i][0], 0) << variable.replica();
          } else {
            EXPECT_EQ(after[i], before[i]) << variable.name() << " of replica " << variable.replica();
          }
        }
        MakeBatch(8, images, labels);
        EXPECT_TRUE(std::isfinite(Step(training, images, labels)));
        EXPECT_EQ(Value(training, training.step.global_step)[0], 2);
        EXPECT_NE(Value(training, training.graph->FindVariable("bn/moving_mean", 0)), std::vector<double>(8, 0.0))
            << "updates of the model run in good steps";
      }
    }
  }
}

// A model with updates of its own: one that counts the steps, one that does so under a condition of the model, and one
// in `first`, which the loss reads.
TowerFunction Counting(const std::function<Scope(const Scope& tower)>& first) {
  return [first](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output x = batch["x"], one = ops::Const(tower, 1.0f);
    const auto count = [&](const Scope& scope, const char* name) {
      return ops::AssignAdd(scope, GetVariable(scope, name, {}, ZerosInitializer(), {.trainable = false}), one);
    };
    tower.AddToCollection(kUpdateOps, count(tower, "steps"));
    const Output positive = ops::Greater(tower, ops::Mean(tower, x), ops::Const(tower, 0.0f));
    tower.AddToCollection(kUpdateOps, count(tower.OnlyIf(positive), "positive_steps"));
    const Output calls = count(first(tower), "calls");
    const Output y = ops::Mul(tower, x, GetVariable(tower, "w", {}, ConstantInitializer(1)));
    return ops::Mul(tower, ops::Mean(tower, ops::Square(tower, y)), calls);
  };
}

TEST_F(ScaledLoss, SkipsUpdatesThatAModelAddsByHand) {
  const auto unconditional = [](const Scope& tower) { return tower.NoControlDependencies(); };
  for (int towers : {1, 2}) {
    for (VariableUpdate update : {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice}) {
      const DeviceSet devices = DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value();
      Graph graph(BuiltinOps());
      const TrainStep step = ReplicateTowers(
          Scope(graph), devices, {{"x", DType::kFloat32, {}}}, Counting(unconditional), optim::GradientDescent({0.01}),
          {.variable_update = update, .loss_scale = optim::LossScaleOptions{.initial = 256}});
      ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
      ASSERT_TRUE(session->RunTarget(step.initialize).ok());
      for (float x : {1.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
        std::vector<Feed> feeds;
        for (const TrainTower& tower : step.towers) feeds.push_back({tower.batch["x"], Tensor::Of<float>({x, x})});
        ASSERT_TRUE(session->Run(feeds, {}, {step.update}).ok());
      }
      const auto value = [&](const char* name) {
        return session->ReadVariable(graph.FindVariable(name, 0))->scalar<float>();
      };
      EXPECT_EQ(value("steps"), 2);
      EXPECT_EQ(value("positive_steps"), 1);
      EXPECT_EQ(value("calls"), update == VariableUpdate::kReplicated ? 3 : 3 * towers) << "runs in every step";
    }
  }
}

TEST_F(ScaledLoss, CannotSkipAnUpdateThatTheLossReads) {
  const TrainStep step = ReplicateTowers(scope_, devices_, {{"x", DType::kFloat32, {}}},
                                         Counting([](const Scope& tower) { return tower; }),
                                         optim::GradientDescent({0.01}), {.loss_scale = optim::LossScaleOptions()});
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph_, devices_));
  EXPECT_THAT(
      session->Run({{step.towers[0].batch["x"], Tensor::Of<float>({1})}}, {}, {step.update}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("The step has a cycle: node 'tower_0/AssignAdd_2'")));
}

TEST_F(ScaledLoss, ByAPowerOfTwoChangesNoBit) {
  for (int towers : {1, 2}) {
    for (VariableUpdate update : {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice}) {
      ReplicateOptions options{.variable_update = update, .clip_global_norm = 1, .moving_average = 0.9};
      Training plain = Start(towers, DType::kFloat32, options);
      options.loss_scale = optim::LossScaleOptions{.initial = 1024, .growth_interval = 2};
      Training scaled = Start(towers, DType::kFloat32, options);
      for (int i = 0; i < 7; ++i) {
        Tensor images, labels;
        MakeBatch(8, images, labels);
        EXPECT_EQ(Step(plain, images, labels), Step(scaled, images, labels)) << "the loss that is reported";
      }
      for (const Variable& variable : plain.graph->variables()) {
        EXPECT_EQ(Value(plain, variable),
                  Value(scaled, scaled.graph->FindVariable(variable.name(), variable.replica())))
            << variable.name();
      }
      EXPECT_EQ(Value(scaled, scaled.step.loss_scale)[0], 8192);
    }
  }
}

TEST_F(ScaledLoss, TrainsAConvolutionInSixteenBits) {
  std::vector<float> losses;
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Training training = Start(2, dtype, {.loss_scale = optim::LossScaleOptions()});
    std::mt19937 same(7);
    for (int i = 0; i < 60; ++i) {
      Tensor images(DType::kFloat32, {24, kEdge, kEdge, kChannels}), labels = Classes(24, kClasses);
      std::normal_distribution<float> normal;
      for (int64_t k = 0; k < images.elements(); ++k) images.data<float>()[k] = normal(same);
      for (int64_t k = 0; k < 24; ++k) images.data<float>()[(k * kEdge * kEdge + 7 * (k % 3)) * kChannels] += 5;
      if (i == 59)
        losses.push_back(Step(training, images, labels));
      else
        Step(training, images, labels);
    }
    EXPECT_EQ(Value(training, training.step.global_step)[0] + Value(training, training.step.skipped_steps)[0], 60);
  }
  EXPECT_LT(losses[0], 0.1);
  EXPECT_NEAR(losses[1], losses[0], 0.02) << "float16";
  EXPECT_NEAR(losses[2], losses[0], 0.05) << "bfloat16";
}

// Gradients of a loss of this size vanish in float16 unless the loss is scaled.
TEST_F(ScaledLoss, KeepsSmallGradientsOfFloat16) {
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output x = ops::Cast(tower, batch["image"], DType::kFloat16);
    const Variable w = GetVariable(tower, "w", {2, 1}, ZerosInitializer());
    const Output y = ops::Cast(tower, ops::MatMul(tower, x, ops::Cast(tower, w, DType::kFloat16)), DType::kFloat32);
    const Output error = ops::Sub(tower, ops::Squeeze(tower, y, {1}), batch["label"]);
    return ops::Scale(tower, ops::Mean(tower, ops::Square(tower, error)), 1e-9);
  };
  std::vector<double> found[2];
  for (bool scaled : {false, true}) {
    ReplicateOptions options;
    if (scaled) options.loss_scale = optim::LossScaleOptions{.initial = 0x1p24};
    Graph graph(BuiltinOps());
    const TrainStep step =
        ReplicateTowers(Scope(graph), devices_, {{"image", DType::kFloat32, {2}}, {"label", DType::kFloat32, {}}},
                        model, optim::GradientDescent({.learning_rate = 2e8}), options);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices_));
    ASSERT_TRUE(session->RunTarget(step.initialize).ok());
    for (int i = 0; i < 300; ++i) {
      const Tensor x = Random({16, 2});
      Tensor y(DType::kFloat32, {16});
      for (int k = 0; k < 16; ++k) y.data<float>()[k] = 0.5f * x.data<float>()[2 * k] - x.data<float>()[2 * k + 1];
      ASSERT_TRUE(
          session->Run({{step.towers[0].batch["image"], x}, {step.towers[0].batch["label"], y}}, {}, {step.update})
              .ok());
    }
    found[scaled] = session->ReadVariable(step.towers[0].variables[0])->ToDoubles();
  }
  EXPECT_EQ(found[false], std::vector<double>(2, 0.0));
  EXPECT_NEAR(found[true][0], 0.5, 5e-3);
  EXPECT_NEAR(found[true][1], -1, 5e-3);
}

TEST_F(ScaledLoss, IsInTheSummaries) {
  const TrainStep step =
      ReplicateTowers(scope_, devices_, ClassifiedFields({kEdge, kEdge, kChannels}), ConvNet(DType::kFloat32),
                      optim::GradientDescent({.learning_rate = 1}), {.loss_scale = optim::LossScaleOptions()});
  std::vector<std::string> names;
  for (const Output& summary : AddTrainSummaries(scope_, step)) names.push_back(summary.node->name());
  EXPECT_THAT(names, Contains(testing::HasSubstr("loss_scale")));
}

}  // namespace
}  // namespace belfry::models
