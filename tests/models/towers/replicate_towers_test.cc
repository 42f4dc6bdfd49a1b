// Towers of models with batch normalisation, and batches of which some or all towers get nothing.
#include "models/towers/replicate_towers.h"

#include "framework/base/status.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/models/classified_fields.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

class Towers : public ModelTest {
 protected:
  struct Training {
    DeviceSet devices;
    std::unique_ptr<Graph> graph = std::make_unique<Graph>(BuiltinOps());
    TrainStep step;
    std::unique_ptr<Session> session;
  };

  static constexpr int64_t kHeight = 5, kWidth = 4, kChannels = 3;

  // Two convolutions with batch norm, and a linear layer.
  static absl::StatusOr<Output> Loss(const Scope& tower, const Batch& batch) {
    Output x = ops::Relu(tower, BatchNorm(tower, "bn1", Conv2D(tower, "conv1", batch["image"], 6, 3), kOptions));
    x = ops::Relu(tower, BatchNorm(tower, "bn2", Conv2D(tower, "conv2", x, 4, 3, {.stride = 2}), kOptions));
    AddCrossEntropy(tower, Dense(tower, "logits", Flatten(tower, x), 3), batch["label"]);
    return TotalLoss(tower);
  }

  static Training Start(int towers, const ReplicateOptions& options) {
    Training training{.devices = DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value()};
    training.graph->set_seed(3);
    training.step =
        ReplicateTowers(Scope(*training.graph), training.devices, ClassifiedFields({kHeight, kWidth, kChannels}), Loss,
                        optim::Momentum({.learning_rate = 0.2, .momentum = 0.9}), options);
    auto session = Session::Create(*training.graph, training.devices);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return training;
    training.session = *std::move(session);
    EXPECT_TRUE(training.session->RunTarget(training.step.initialize).ok());
    return training;
  }

  // A step on a batch that the towers share, `examples` of them each. Returns the loss.
  static absl::StatusOr<float> Step(Training& training, const Tensor& images, const Tensor& labels,
                                    const std::vector<int64_t>& examples) {
    std::vector<Feed> feeds;
    const int64_t pixels = kHeight * kWidth * kChannels;
    int64_t first = 0;
    for (size_t t = 0; t < examples.size(); ++t) {
      const int64_t n = examples[t];
      feeds.push_back({training.step.towers[t].batch["image"],
                       Tensor::Of<float>(images.span<float>().subspan(first * pixels, n * pixels),
                                         {n, kHeight, kWidth, kChannels})});
      feeds.push_back(
          {training.step.towers[t].batch["label"], Tensor::Of<int32_t>(labels.span<int32_t>().subspan(first, n), {n})});
      first += n;
    }
    ASSIGN_OR_RETURN(const auto fetched, training.session->Run(feeds, {training.step.loss}, {training.step.update}));
    return fetched[0].scalar<float>();
  }

  static std::vector<double> Value(const Training& training, absl::string_view name, int replica = 0) {
    const Variable variable = training.graph->FindVariable(name, replica);
    EXPECT_TRUE(variable.valid()) << name;
    return training.session->ReadVariable(variable)->ToDoubles();
  }

  // Checks that one tower and several agree over batches that are dealt as `examples` says.
  void ExpectAlike(Training& one, Training& several, const std::vector<std::vector<int64_t>>& batches) {
    for (const std::vector<int64_t>& examples : batches) {
      int64_t n = 0;
      for (int64_t share : examples) n += share;
      Tensor images = Random({n, kHeight, kWidth, kChannels});
      // Makes the towers' statistics differ.
      for (int64_t i = 0; i < images.elements(); ++i)
        images.data<float>()[i] += static_cast<float>(4 * i) / images.elements();
      const Tensor labels = Classes(n, 3);
      ASSERT_OK_AND_ASSIGN(const auto expected, Step(one, images, labels, {n}));
      ASSERT_OK_AND_ASSIGN(const auto actual, Step(several, images, labels, examples));
      EXPECT_NEAR(actual, expected, 1e-3 * expected);
    }
    for (const Variable& variable : one.graph->variables()) {
      const std::vector<double> expected = Value(one, variable.name()), actual = Value(several, variable.name());
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 2e-3 * (1 + std::abs(expected[i]))) << variable.name() << "[" << i << "]";
      }
    }
  }

 private:
  static constexpr BatchNormOptions kOptions = {.momentum = 0.8};
};

TEST_F(Towers, WithSynchronisedBatchNormEqualOneTower) {
  for (VariableUpdate update : {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice}) {
    const ReplicateOptions options{.variable_update = update, .batch_norm = BatchNormPolicy::kSynchronised};
    Training one = Start(1, options), three = Start(3, options);
    ExpectAlike(one, three, {{4, 4, 4}, {5, 4, 4}, {2, 1, 1}, {1, 1, 0}, {4, 4, 4}, {0, 3, 0}, {0, 0, 1}, {3, 3, 3}});
    if (update == VariableUpdate::kParameterDevice) continue;
    for (const Variable& variable : one.graph->variables()) {
      for (int replica = 1; replica < 3; ++replica) {
        EXPECT_EQ(Value(three, variable.name(), replica), Value(three, variable.name(), 0)) << variable.name();
      }
    }
  }
}

TEST_F(Towers, WithoutItNormaliseByTheirOwnExamples) {
  Training one = Start(1, {}), two = Start(2, {});
  const Tensor images = Random({6, kHeight, kWidth, kChannels}), labels = Classes(6, 3);
  const auto expected = Step(one, images, labels, {6}), actual = Step(two, images, labels, {3, 3});
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_GT(std::abs(*actual - *expected), 1e-4);
  EXPECT_EQ(Value(two, "bn1/moving_mean", 1), std::vector<double>(6, 0.0)) << "only tower 0's averages move";
  EXPECT_NE(Value(two, "bn1/moving_mean", 0), std::vector<double>(6, 0.0));
}

TEST_F(Towers, WithoutExamplesDoNotMoveTheAverages) {
  Training two = Start(2, {});
  ASSERT_TRUE(Step(two, Random({4, kHeight, kWidth, kChannels}), Classes(4, 3), {2, 2}).ok());
  const std::vector<double> mean = Value(two, "bn1/moving_mean"), variance = Value(two, "bn1/moving_variance");
  ASSERT_TRUE(Step(two, Random({1, kHeight, kWidth, kChannels}), Classes(1, 3), {0, 1}).ok());
  EXPECT_EQ(Value(two, "bn1/moving_mean"), mean);
  EXPECT_EQ(Value(two, "bn1/moving_variance"), variance);
}

TEST_F(Towers, WithoutAnyExampleFailAndChangeNothing) {
  for (int towers : {1, 2}) {
    for (VariableUpdate update :
         {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice, VariableUpdate::kIndependent}) {
      for (BatchNormPolicy policy : {BatchNormPolicy::kPerTower, BatchNormPolicy::kSynchronised}) {
        if (update == VariableUpdate::kIndependent && policy == BatchNormPolicy::kSynchronised) continue;
        Training training = Start(towers, {.variable_update = update, .batch_norm = policy});
        const auto before = Value(training, "conv1/weights");
        const auto loss =
            Step(training, Random({0, kHeight, kWidth, kChannels}), Classes(0, 3), std::vector<int64_t>(towers, 0));
        EXPECT_EQ(loss.status().code(), absl::StatusCode::kInvalidArgument) << loss.status();
        EXPECT_EQ(Value(training, "conv1/weights"), before);
      }
    }
  }
}

TEST_F(Towers, ThatAreIndependentNeedExamplesEach) {
  Training training = Start(2, {.variable_update = VariableUpdate::kIndependent});
  const auto loss = Step(training, Random({1, kHeight, kWidth, kChannels}), Classes(1, 3), {1, 0});
  EXPECT_THAT(loss.status().message(), HasSubstr("Tower 1 was fed no example"));
  EXPECT_TRUE(Step(training, Random({2, kHeight, kWidth, kChannels}), Classes(2, 3), {1, 1}).ok());
}

TEST_F(Towers, ThatAreIndependentCannotSynchronise) {
  ReplicateTowers(scope_, devices_, ClassifiedFields({kHeight, kWidth, kChannels}), Loss,
                  optim::GradientDescent({.learning_rate = 1}),
                  {.variable_update = VariableUpdate::kIndependent, .batch_norm = BatchNormPolicy::kSynchronised});
  EXPECT_THAT(graph_.status().message(), HasSubstr("'independent' does not average"));
}

TEST_F(Towers, RefuseOptionsOutOfRange) {
  for (const ReplicateOptions& options :
       {ReplicateOptions{.clip_global_norm = -1}, ReplicateOptions{.clip_global_norm = NAN},
        ReplicateOptions{.moving_average = 1}, ReplicateOptions{.moving_average = -1}}) {
    Graph graph(BuiltinOps());
    ReplicateTowers(Scope(graph), devices_, ClassifiedFields({kHeight, kWidth, kChannels}), Loss,
                    optim::GradientDescent({.learning_rate = 1}), options);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << graph.status();
  }
}

TEST_F(Towers, ErrorsNameTheModelsOwnLine) {
  int line = 0;
  const auto model = [&](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    line = __LINE__ + 1;
    return ops::MatMul(tower, batch["image"], batch["image"]);
  };
  ReplicateTowers(scope_, devices_, ClassifiedFields({2, 3}), model, optim::GradientDescent({.learning_rate = 1}));
  EXPECT_THAT(graph_.status().message(), HasSubstr("replicate_towers_test.cc:" + std::to_string(line)));
}

TEST_F(Towers, AreThereAfterAnError) {
  const optim::GradientDescent descent({.learning_rate = 1});
  const auto failing = [](const Scope&, const Batch&) -> absl::StatusOr<Output> {
    return absl::DataLossError("no model today");
  };
  const TrainStep step = ReplicateTowers(scope_, devices_, ClassifiedFields({2, 3}), failing, descent);
  ASSERT_EQ(step.towers.size(), devices_.TowerDevices().size());
  EXPECT_FALSE(step.towers[0].loss.valid());
  EXPECT_FALSE(step.global_step.valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("no model today"));

  Graph no_devices(BuiltinOps()), no_model(BuiltinOps());
  EXPECT_EQ(ReplicateTowers(Scope(no_devices), DeviceSet(), ClassifiedFields({2, 3}), failing, descent).towers.size(),
            1u);
  EXPECT_THAT(no_devices.status().message(), HasSubstr("the DeviceSet is empty"));
  ReplicateTowers(Scope(no_model), devices_, ClassifiedFields({2, 3}), nullptr, descent);
  EXPECT_THAT(no_model.status().message(), HasSubstr("needs a model function, not null"));
}

TEST_F(Towers, AllGetALearningRateThatIsFed) {
  Training training = Start(2, {});
  std::vector<Feed> feeds = {{training.step.learning_rate, Tensor::Scalar(0.0f)}};
  for (const TrainTower& tower : training.step.towers) {
    feeds.push_back({tower.batch["image"], Random({2, kHeight, kWidth, kChannels})});
    feeds.push_back({tower.batch["label"], Classes(2, 3)});
  }
  std::vector<Tensor> before;
  for (const TrainTower& tower : training.step.towers) {
    before.push_back(training.session->ReadVariable(tower.variables[0])->Clone());
  }
  ASSERT_TRUE(training.session->Run(feeds, {}, {training.step.update}).ok());
  for (size_t t = 0; t < before.size(); ++t) {
    const Tensor after = *training.session->ReadVariable(training.step.towers[t].variables[0]);
    EXPECT_EQ(after.ToDoubles(), before[t].ToDoubles()) << "tower " << t;
  }
}

// Collectives' names keep two models in one graph apart.
TEST_F(Towers, OfTwoModelsInOneGraph) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  const ReplicateOptions options{.batch_norm = BatchNormPolicy::kSynchronised};
  const std::vector<data::Field> input = ClassifiedFields({kHeight, kWidth, kChannels});
  const auto replicate = [&](const char* name) {
    return ReplicateTowers(scope_.VariableScope(name), devices, input, Loss,
                           optim::GradientDescent({.learning_rate = 1}), options);
  };
  const TrainStep a = replicate("a"), b = replicate("b");
  EXPECT_EQ(a.towers[0].variables.size(), b.towers[0].variables.size());
  EXPECT_EQ(b.towers[1].variables[0].name(), "b/conv1/weights");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph_, devices));
  ASSERT_TRUE(session->RunTarget(b.initialize).ok());
  for (const TrainStep* step : {&a, &b}) {
    std::vector<Feed> feeds;
    for (const TrainTower& tower : step->towers) {
      feeds.push_back({tower.batch["image"], Random({2, kHeight, kWidth, kChannels})});
      feeds.push_back({tower.batch["label"], Classes(2, 3)});
    }
    EXPECT_EQ(session->Run(feeds, {step->loss}, {step->update}).status(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace belfry::models
