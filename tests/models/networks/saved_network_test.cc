#include "models/networks/saved_network.h"

#include <cstring>
#include <map>

#include "framework/base/status.h"
#include "models/layers/losses.h"
#include "models/networks/resnet.h"
#include "models/towers/replicate_towers.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

class SavedNetwork : public ModelTest {
 protected:
  static Output Network(const Scope& scope, Output images) { return ResNet(scope, images, {.training = false}); }

  // A ResNet with its random weights, in the graph of the test and in the file.
  void SaveResNet() {
    images_ = Images(16, 16, 3);
    logits_ = Network(scope_, images_);
    Start();
    ASSERT_EQ(SaveModel(*session_, {{"image", images_}}, {{"logits", logits_}}, path_), absl::OkStatus());
  }
  // Examples [begin, begin + n).
  static Tensor Part(const Tensor& all, int64_t begin, int64_t n) {
    Shape shape = all.shape();
    shape.set_dim(0, n);
    Tensor part(all.dtype(), shape);
    const size_t bytes = part.bytes() / static_cast<size_t>(n);
    std::memcpy(part.raw(), static_cast<const char*>(all.raw()) + static_cast<size_t>(begin) * bytes, part.bytes());
    return part;
  }
  ModelContents Contents() const { return ModelContents::Open(path_).value(); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "network";
  Output images_, logits_;
};

TEST_F(SavedNetwork, HasTheGradientsOfTheNetwork) {
  SaveResNet();
  const Output labels = Labels();
  const auto gradients_of = [&](const Scope& scope, Output logits) {
    AddCrossEntropy(scope, logits, labels);
    return optim::ComputeGradients(scope, TotalLoss(scope), optim::TrainableVariables(scope));
  };
  const Scope again = scope_.VariableScope("again");
  ASSERT_OK_AND_ASSIGN(const auto outputs, BuildSavedModel(again, Contents(), {{"image", images_}}));
  const auto actual = gradients_of(again, outputs[0]);
  const Scope first = scope_.NameScope("first");
  std::vector<Output> fetches = {outputs[0], logits_};
  AddCrossEntropy(first, logits_, labels);
  std::vector<Variable> same;
  for (const auto& gradient : actual) {
    same.push_back(Find(gradient.variable.name().substr(std::string("again/").size())));
    ASSERT_TRUE(same.back().valid()) << gradient.variable.name();
  }
  const auto expected = optim::ComputeGradients(first, TotalLoss(first), same);
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_GT(actual.size(), 40u);
  for (size_t i = 0; i < actual.size(); ++i) {
    fetches.push_back(actual[i].gradient);
    fetches.push_back(expected[i].gradient);
  }
  // The session of Start knows the first network only; the weights of both are those of the file.
  std::map<std::string, Tensor> values;
  for (const Variable& variable : graph_.variables()) {
    if (!absl::StartsWith(variable.name(), "again/"))
      values[variable.name()] = session_->ReadVariable(variable).value();
  }
  Start();
  for (const Variable& variable : graph_.variables()) {
    if (values.contains(variable.name())) {
      ASSERT_TRUE(session_->WriteVariable(variable, values[variable.name()]).ok());
    }
  }
  const std::vector<Tensor> results = Run({{images_, Random({6, 16, 16, 3})}, {labels, Classes(6, 10)}}, fetches);
  for (size_t i = 0; i < results.size(); i += 2) EXPECT_TRUE(SameBits(results[i], results[i + 1])) << i;
}

TEST_F(SavedNetwork, KnowsWhatIsTrained) {
  SaveResNet();
  std::map<std::string, bool> expected, actual;
  for (const Variable& variable : graph_.variables()) expected[variable.name()] = variable.trainable();
  Graph graph(BuiltinOps());
  ASSERT_TRUE(Contents().Build(Scope(graph), ModelMode::kTrained).ok());
  for (const Variable& variable : graph.variables()) actual[variable.name()] = variable.trainable();
  EXPECT_EQ(actual, expected);
}

// One step of two towers on halves of a batch is that of one tower on all of it.
TEST_F(SavedNetwork, TrainsOnTowers) {
  SaveResNet();
  const ModelContents contents = Contents();
  const std::vector<data::Field> fields = {{"image", DType::kFloat32, {16, 16, 3}}, {"label", DType::kInt32, {}}};
  const Tensor images = Random({8, 16, 16, 3}), labels = Classes(8, 10);
  const auto weights_after = [&](const std::string& devices_text, int64_t towers, VariableUpdate update) {
    std::map<std::string, Tensor> weights;
    const DeviceSet devices = DeviceSet::Open(devices_text).value();
    Graph graph(BuiltinOps());
    const auto model = [&](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
      ASSIGN_OR_RETURN(const auto outputs, BuildSavedModel(tower, contents, {{"image", batch["image"]}}));
      AddCrossEntropy(tower, outputs[0], batch["label"]);
      return TotalLoss(tower);
    };
    const TrainStep step =
        ReplicateTowers(Scope(graph), devices, fields, model, optim::GradientDescent({.learning_rate = 0.1}),
                        {.variable_update = update, .frozen = {"conv1/*"}});
    const auto session = Session::Create(graph, devices);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok() || !(*session)->RunTarget(step.initialize).ok()) return weights;
    std::vector<Feed> feeds;
    const int64_t n = 8 / towers;
    for (int64_t t = 0; t < towers; ++t) {
      const Batch& batch = step.towers[static_cast<size_t>(t)].batch;
      feeds.push_back({batch["image"], Part(images, t * n, n)});
      feeds.push_back({batch["label"], Part(labels, t * n, n)});
    }
    EXPECT_EQ((*session)->RunTarget(step.update, feeds), absl::OkStatus());
    for (const Variable& variable : step.towers[0].variables) {
      weights[variable.name()] = (*session)->ReadVariable(variable).value();
    }
    return weights;
  };
  const auto one = weights_after("cpu:1", 1, VariableUpdate::kReplicated);
  const auto two = weights_after("cpu:2", 2, VariableUpdate::kReplicated);
  const auto shared = weights_after("cpu:2", 2, VariableUpdate::kParameterDevice);
  ASSERT_GT(one.size(), 40u);
  for (const auto& [name, value] : one) {
    EXPECT_FALSE(absl::StartsWith(name, "conv1/"));
    const std::vector<double> expected = value.ToDoubles();
    for (const auto* const other : {&two, &shared}) {
      ASSERT_TRUE(other->contains(name)) << name;
      const std::vector<double> found = other->at(name).ToDoubles();
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << name;
    }
  }
}

TEST_F(SavedNetwork, SaysWhatDoesNotFit) {
  SaveResNet();
  const ModelContents contents = Contents();
  const auto error = [&](const std::vector<NamedOutput>& inputs) {
    Graph graph(BuiltinOps());
    std::vector<NamedOutput> own;
    for (const NamedOutput& input : inputs) {
      own.push_back({input.name, ops::Placeholder(Scope(graph), input.value.dtype(), input.value.shape())});
    }
    return std::string(BuildSavedModel(Scope(graph), contents, own).status().message());
  };
  EXPECT_EQ(error({{"image", images_}}), "");
  EXPECT_THAT(error({{"picture", images_}}), HasSubstr("an input 'image', which was not given"));
  EXPECT_THAT(error({{"image", images_}, {"more", images_}}), HasSubstr("no input 'more'"));
  EXPECT_THAT(error({{"image", logits_}}), HasSubstr("float32 [?,16,16,3], but was given"));
  const Scope used = scope_;
  EXPECT_THAT(BuildSavedModel(used, contents, {{"image", images_}}).status().message(), HasSubstr("already exists"));
}

}  // namespace
}  // namespace belfry::models
