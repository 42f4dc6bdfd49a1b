// Runs that begin with the weights of another one.
#include "trainers/loop/warm_start.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/io/checkpoint_directory.h"
#include "models/layers/losses.h"
#include "models/networks/mlp.h"
#include "optim/adam.h"
#include "tests/framework/base/same_bits.h"
#include "tests/trainers/experiment.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A classifier of blobs whose head has so many outputs.
struct Classifier {
  explicit Classifier(int64_t outputs, models::ReplicateOptions options = {}) {
    const auto model = [outputs](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Output logits = models::Mlp(tower, batch["point"], {.hidden = {8}, .classes = outputs});
      models::AddCrossEntropy(tower, logits, batch["label"]);
      return models::TotalLoss(tower);
    };
    graph.set_seed(static_cast<uint64_t>(outputs));
    step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::Adam(), options);
    EXPECT_EQ(graph.status(), absl::OkStatus());
    session = Session::Create(graph, devices).value();
  }
  absl::Status Run(TrainerOptions options) {
    options.quiet = true;
    Trainer trainer(*session, step, *input, std::move(options));
    return trainer.Run();
  }
  Tensor Value(const std::string& name, int replica = 0) const {
    return session->ReadVariable(graph.FindVariable(name, replica)).value().Clone();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Variable& variable : step.towers[0].variables) names.push_back(variable.name());
    return names;
  }

  std::unique_ptr<data::Dataset> dataset = Blobs(50, 3);
  DeviceSet devices = DeviceSet::Open("cpu:2", {.cpu_threads = 1}).value();
  std::unique_ptr<data::Prefetcher> input =
      data::Prefetcher::Create(*dataset, {.batch_size = 10, .towers = 2, .local_towers = 2}).value();
  Graph graph{BuiltinOps()};
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

class WarmStartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(trained_.Run({.steps = 5, .directory = folder_.path()}), absl::OkStatus());
    names_ = trained_.Names();
    ASSERT_EQ(names_.size(), 4u);
  }
  const TemporaryFolder folder_;
  Classifier trained_{3};
  std::vector<std::string> names_;
};

TEST_F(WarmStartTest, TakesWhatFits) {
  Classifier run(7);
  ASSERT_EQ(run.session->RunTarget(run.step.initialize), absl::OkStatus());
  const auto text = WarmStart(*run.session, folder_.path());
  ASSERT_EQ(text.status(), absl::OkStatus());
  EXPECT_THAT(*text, AllOf(HasSubstr("Weights: 2 variables from "), HasSubstr("step-00000005.safetensors; as init"),
                           HasSubstr("[8,7], there [8,3]")));
  int same = 0;
  for (const std::string& name : names_) {
    for (const int replica : {0, 1}) same += SameBits(run.Value(name, replica), trained_.Value(name));
  }
  EXPECT_EQ(same, 4) << "two variables in two replicas";
  EXPECT_EQ(run.Value("global_step").scalar<int64_t>(), 0);
  for (const std::string& name : names_) {
    EXPECT_EQ(run.Value(name + "/Adam").ToDoubles()[0], 0) << name;
    EXPECT_EQ(run.Value(name + "/Adam_updates").scalar<int64_t>(), 0) << name;
  }
}

// The weights of a deeper network; the shallow one takes a part of them.
TEST_F(WarmStartTest, NamesTensorsThatNoVariableTakes) {
  const std::string file = folder_ / "foreign.safetensors";
  std::vector<io::NamedTensor> tensors = {
      {"more/weights", Tensor::Zeros(DType::kFloat32, {2})}, {"more/weights/Adam", Tensor::Zeros(DType::kFloat32, {2})},
      {"more/biases", Tensor::Zeros(DType::kFloat32, {2})},  {"squeeze", Tensor::Zeros(DType::kFloat32, {2})},
      {"\x1Bx", Tensor::Zeros(DType::kFloat32, {2})},        {"epoch", Tensor::Zeros(DType::kInt64, {})}};
  for (const std::string& name : names_) tensors.push_back({name, trained_.Value(name)});
  ASSERT_EQ(io::WriteSafetensors(file, tensors), absl::OkStatus());
  Classifier run(3);
  ASSERT_EQ(run.session->RunTarget(run.step.initialize), absl::OkStatus());
  EXPECT_EQ(ValueOf(WarmStart(*run.session, file)),
            absl::StrCat("Weights: 4 variables from ", file,
                         "; not used: 4 tensors, such as \\x1bx, more/biases, more/weights"));
  folder_.Write("config.json", "{}");
  EXPECT_THAT(ValueOf(WarmStart(*run.session, file)), HasSubstr("config.json is not read"));
  // Slots and counters of our own training are none of them.
  EXPECT_THAT(ValueOf(WarmStart(*run.session, folder_.path())), testing::Not(HasSubstr("not used")));
}

TEST_F(WarmStartTest, ByTheTrainer) {
  const std::string checkpoints = folder_.path() + "/checkpoints";
  for (const std::string& from : {folder_.path(), checkpoints, checkpoints + "/step-00000005.safetensors"}) {
    Classifier run(3);
    ASSERT_EQ(run.Run({.steps = 0, .resume = {.init_from = from}}), absl::OkStatus()) << from;
    for (const std::string& name : names_) EXPECT_TRUE(SameBits(run.Value(name), trained_.Value(name))) << name;
  }
}

// The frozen layer keeps the bytes that it took.
TEST_F(WarmStartTest, TrainsTheRest) {
  Classifier run(7, {.frozen = {"hidden?/*"}});
  const std::vector<std::string> rest = run.Names();
  ASSERT_EQ(rest.size(), 2u);
  ASSERT_EQ(run.Run({.steps = 8, .resume = {.init_from = folder_.path()}}), absl::OkStatus());
  for (const std::string& name : names_) {
    if (std::find(rest.begin(), rest.end(), name) != rest.end()) continue;
    EXPECT_TRUE(SameBits(run.Value(name), trained_.Value(name))) << name;
  }
  EXPECT_EQ(run.Value("global_step").scalar<int64_t>(), 8);
}

// The averages begin with the weights that are taken, with a step before the first look at them and without.
TEST_F(WarmStartTest, AveragesBeginWithIt) {
  for (const int64_t steps : {0, 3}) {
    Classifier run(3, {.frozen = {"hidden?/*"}, .moving_average = 0.9999});
    ASSERT_EQ(run.Run({.steps = steps, .resume = {.init_from = folder_.path()}}), absl::OkStatus());
    for (const std::string& name : run.Names()) {
      const std::vector<double> average = run.Value(name + "/ExponentialMovingAverage").ToDoubles();
      const std::vector<double> from = trained_.Value(name).ToDoubles();
      // Adam moves a weight by little more than its rate.
      for (size_t i = 0; i < average.size(); ++i) {
        EXPECT_NEAR(average[i], from[i], 0.0011 * static_cast<double>(steps)) << name << " after " << steps;
      }
    }
  }
}

// The evaluation of such a run goes by its averages.
TEST_F(WarmStartTest, TakesTheAveragesOfARunThatHasThem) {
  const TemporaryFolder other;
  Classifier averaged(3, {.moving_average = 0.9}), run(3);
  ASSERT_EQ(averaged.Run({.steps = 5, .directory = other.path()}), absl::OkStatus());
  ASSERT_EQ(run.Run({.steps = 0, .resume = {.init_from = other.path()}}), absl::OkStatus());
  for (const std::string& name : names_) {
    EXPECT_TRUE(SameBits(run.Value(name), averaged.Value(name + "/ExponentialMovingAverage"))) << name;
    EXPECT_FALSE(SameBits(run.Value(name), averaged.Value(name))) << name;
    // An average that has begun is no longer written with its variable.
    const Variable variable = averaged.graph.FindVariable(name, 0);
    ASSERT_EQ(averaged.session->WriteVariable(variable, Tensor::Zeros(DType::kFloat32, variable.shape())),
              absl::OkStatus());
    EXPECT_TRUE(SameBits(run.Value(name), averaged.Value(name + "/ExponentialMovingAverage"))) << name;
  }
}

// A run that resumes has weights of its own.
TEST_F(WarmStartTest, NotWhenItResumes) {
  Classifier run(3);
  const TemporaryFolder other;
  ASSERT_EQ(Classifier(3).Run({.steps = 9, .directory = other.path()}), absl::OkStatus());
  ASSERT_EQ(run.Run({.steps = 9, .directory = other.path(), .resume = {.latest = true, .init_from = folder_.path()}}),
            absl::OkStatus());
  EXPECT_FALSE(SameBits(run.Value(names_[0]), trained_.Value(names_[0])));
  EXPECT_EQ(run.Value("global_step").scalar<int64_t>(), 9);
}

TEST_F(WarmStartTest, FilesThatDoNotFit) {
  Classifier run(3);
  EXPECT_THAT(run.Run({.steps = 1, .resume = {.init_from = folder_.path() + "/none"}}).message(), HasSubstr("/none"));
  Graph graph(BuiltinOps());
  ASSERT_TRUE(GetVariable(Scope(graph), "other", {2}, ZerosInitializer()).valid());
  const auto session = Session::Create(graph, run.devices).value();
  ASSERT_EQ(session->RunTarget(InitializeVariables(Scope(graph))), absl::OkStatus());
  EXPECT_THAT(WarmStart(*session, folder_.path()).status().message(), HasSubstr("does not match the model"));
}

}  // namespace
}  // namespace belfry::trainers
