#include "models/towers/summaries.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "models/layers/embedding.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "ops/builtin_ops.h"
#include "ops/summary.h"
#include "optim/descent.h"
#include "tests/models/classified_fields.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr float kRate = 0.25f;

absl::StatusOr<Output> Loss(const Scope& tower, const Batch& batch) {
  const Output x = Dense(tower, "hidden", batch["image"], 4, {.activation = Activation::kRelu, .weight_decay = 0.1});
  AddCrossEntropy(tower, Dense(tower, "logits", x, 2), batch["label"]);
  return TotalLoss(tower);
}

// Two towers with all their summaries, after one training step.
class Summaries : public ::testing::TestWithParam<VariableUpdate> {
 protected:
  void Step(const SummaryOptions& options = {}) {
    graph_.set_seed(5);
    const optim::GradientDescent optimizer({.learning_rate = kRate});
    step_ = ReplicateTowers(Scope(graph_), devices_, ClassifiedFields({3}), Loss, optimizer,
                            {.variable_update = GetParam()});
    summaries_ = AddTrainSummaries(Scope(graph_), step_, options);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, devices_));
    ASSERT_TRUE(session_->RunTarget(step_.initialize).ok());
    for (const auto& [gradient, variable, indices] : step_.gradients) {
      before_[variable.name()] = session_->ReadVariable(variable).value().ToDoubles();
    }

    std::vector<Feed> feeds;
    for (const TrainTower& tower : step_.towers) {
      feeds.push_back({tower.batch["image"], Tensor::Of<float>({1, -2, 3, 0.5f, 1, -1}, {2, 3})});
      feeds.push_back({tower.batch["label"], Tensor::Of<int32_t>({0, 1})});
    }
    std::vector<Output> fetches = summaries_;
    fetches.push_back(step_.loss);
    ASSERT_OK_AND_ASSIGN(auto values, session_->Run(feeds, fetches, {step_.update}));
    loss_ = values.back().scalar<float>();
    values.pop_back();
    for (size_t i = 0; i < summaries_.size(); ++i) values_[summaries_[i].node->name()] = values[i];
    ASSERT_OK_AND_ASSIGN(auto fetched, ops::ReadSummaries(summaries_, values));
    for (const auto& [tag, value] : fetched.scalars) scalars_[tag] = value;
  }
  std::vector<std::string> Nodes() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) names.push_back(name);
    return names;
  }

  const DeviceSet devices_ = DeviceSet::Open("cpu:2", {.cpu_threads = 1}).value();
  Graph graph_{BuiltinOps()};
  TrainStep step_;
  std::vector<Output> summaries_;
  std::unique_ptr<Session> session_;
  float loss_ = 0;
  std::map<std::string, std::vector<double>> before_;  // the variables before the step
  std::map<std::string, Tensor> values_;               // by the summary's node
  std::map<std::string, double> scalars_;              // by tag
};

TEST_P(Summaries, Scalars) {
  Step();
  EXPECT_EQ(scalars_.size(), 5u);
  EXPECT_FLOAT_EQ(scalars_.at("total_loss"), loss_);
  EXPECT_EQ(scalars_.at("learning_rate"), kRate);
  EXPECT_NEAR(scalars_.at("cross_entropy") + scalars_.at("hidden/weight_decay"), loss_, 1e-6);
  const std::vector<double> activations = values_.at("tower_0/hidden/Relu/activations/HistogramSummary").ToDoubles();
  EXPECT_EQ(activations.size(), 8u);
  EXPECT_EQ(scalars_.at("hidden/Relu/sparsity"), std::count(activations.begin(), activations.end(), 0.0) / 8.0);
}

TEST_P(Summaries, GradientsAreWhatVariablesMovedBy) {
  Step();
  ASSERT_EQ(step_.gradients.size(), 4u);
  for (const auto& [gradient, variable, indices] : step_.gradients) {
    SCOPED_TRACE(variable.name());
    const std::vector<double> g = values_.at(variable.name() + "/gradients/HistogramSummary").ToDoubles();
    const std::vector<double> after = session_->ReadVariable(variable).value().ToDoubles();
    const std::vector<double>& before = before_.at(variable.name());
    ASSERT_EQ(g.size(), before.size());
    double moved = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      EXPECT_NEAR(after[i], before[i] - kRate * g[i], 1e-6);
      moved += std::fabs(g[i]);
    }
    EXPECT_GT(moved, 1e-3);
  }
}

TEST_P(Summaries, VariablesAreThoseBeforeTheStep) {
  Step();
  for (const auto& [name, before] : before_) {
    EXPECT_EQ(values_.at(name + "/HistogramSummary").ToDoubles(), before) << name;
  }
}

TEST_P(Summaries, OptionsLeaveOut) {
  Step({.activations = false, .gradients = false, .variables = false});
  EXPECT_EQ(scalars_.size(), 4u);
  EXPECT_THAT(Nodes(), Each(Not(::testing::HasSubstr("HistogramSummary"))));
}

TEST_P(Summaries, ActivationsOfTheFirstTowerOrOfAll) {
  Step();
  EXPECT_THAT(Nodes(), Not(Contains(AllOf(StartsWith("tower_1/"), ::testing::HasSubstr("activations")))));
}
TEST_P(Summaries, ActivationsOfAllTowers) {
  Step({.all_towers = true});
  EXPECT_THAT(Nodes(), Contains("tower_1/hidden/Relu/activations/HistogramSummary"));
}

INSTANTIATE_TEST_SUITE_P(Updates, Summaries,
                         ::testing::Values(VariableUpdate::kReplicated, VariableUpdate::kParameterDevice,
                                           VariableUpdate::kIndependent));

TEST(SummariesOfASparseGradient, AreOfItsRows) {
  Graph graph(BuiltinOps());
  const DeviceSet devices = DeviceSet::Open("cpu:2", {.cpu_threads = 1}).value();
  const auto loss = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output x = Embedding(tower, "words", batch["label"], 2, 3, {.table = NormalInitializer(1)});
    return AddCrossEntropy(tower, Dense(tower, "logits", x, 2), batch["label"]);
  };
  const TrainStep step = ReplicateTowers(Scope(graph), devices, ClassifiedFields({3}), loss,
                                         optim::GradientDescent({.learning_rate = kRate}));
  const std::vector<Output> summaries = AddTrainSummaries(Scope(graph), step);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto histogram = std::find_if(summaries.begin(), summaries.end(), [](const Output& one) {
    return one.node->name() == "words/table/gradients/HistogramSummary";
  });
  ASSERT_NE(histogram, summaries.end());
  const auto session = Session::Create(graph, devices).value();
  ASSERT_TRUE(session->RunTarget(step.initialize).ok());
  const Variable table = graph.FindVariable("words/table", 0);
  std::vector<Feed> feeds;
  for (const TrainTower& tower : step.towers) {
    feeds.push_back({tower.batch["image"], Tensor::Zeros(DType::kFloat32, {3, 3})});
    feeds.push_back({tower.batch["label"], Tensor::Of<int32_t>({0, 1, 1})});
  }
  const std::vector<double> before = session->ReadVariable(table).value().ToDoubles();
  ASSERT_OK_AND_ASSIGN(const auto values, session->Run(feeds, {*histogram}, {step.update}));
  const std::vector<double> after = session->ReadVariable(table).value().ToDoubles();
  double moved = 0, sum = 0, largest = 0;
  for (size_t i = 0; i < after.size(); ++i) moved += (before[i] - after[i]) / kRate;
  for (const double value : values[0].ToDoubles()) {
    sum += value;
    largest = std::max(largest, std::fabs(value));
  }
  EXPECT_NEAR(sum, moved, 1e-5);
  EXPECT_GT(largest, 1e-3);
}

TEST(SummariesOfABrokenGraph, AreNone) {
  Graph graph(BuiltinOps());
  graph.Fail(absl::InvalidArgumentError("broken"));
  EXPECT_THAT(AddTrainSummaries(Scope(graph), TrainStep()), IsEmpty());
}

}  // namespace
}  // namespace belfry::models
