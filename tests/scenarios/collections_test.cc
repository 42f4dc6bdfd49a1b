// S6: towers with collections.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/multi_gpu_model.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

std::vector<DeviceName> CpuDevices(int count) {
  std::vector<DeviceName> names;
  for (int i = 0; i < count; ++i) names.push_back(DeviceName::Full("localhost", 0, 0, "CPU", i));
  return names;
}

// The main program up to its loop.
struct Program {
  explicit Program(int towers, int device_count = 4)
      : devices(DeviceSet::Open(absl::StrCat("cpu:", device_count)).value()) {
    const Scope root(graph);
    train_op = MultiGpuModel(root.NameScope("train"), CpuDevices(towers));
    BuildModel(root.NameScope("test").Device("/cpu:0").ReuseVariables(Reuse::kAlways), 0, kTestModels);
    const Node* initialize = InitializeVariables(root);
    session = ValueOf(Session::Create(graph, devices));
    EXPECT_TRUE(session->RunTarget(initialize).ok());
  }

  DeviceSet devices;
  Graph graph{BuiltinOps()};
  const Node* train_op = nullptr;
  std::unique_ptr<Session> session;
};

TEST(ScenarioCollections, EachTowerIsInAllOfThem) {
  const Program program(3);
  const std::vector<Tower> towers = program.graph.GetTowers(kTrainModels);
  ASSERT_EQ(towers.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(towers[i].scope, absl::StrCat("train/tower_", i, "/"));
    EXPECT_EQ((*program.session->DeviceOf(*towers[i].loss.node))->name().id, i);
    EXPECT_EQ(program.graph.GetCollection(kLossCollection, towers[i].scope), std::vector<Output>{towers[i].loss});
    EXPECT_EQ(program.graph.GetCollection(kPredict, towers[i].scope), towers[i].predictions);
    EXPECT_EQ(program.graph.GetCollection(kMergeSummary, towers[i].scope).size(), 1u);
  }
  EXPECT_EQ(program.graph.GetCollection(kLossCollection, "train").size(), 3u);
  EXPECT_EQ(program.graph.GetCollection(kLossCollection, "test").size(), 1u);
}

TEST(ScenarioCollections, VariablesAreShared) {
  const Program program(3);
  std::vector<std::string> trainable;
  for (const Variable& variable : program.graph.variables()) {
    if (variable.trainable()) trainable.push_back(variable.name());
    EXPECT_EQ((*program.session->DeviceOf(variable.node()))->name().id, 0) << variable.name();
  }
  EXPECT_THAT(trainable, testing::ElementsAre("hidden1/weights", "hidden1/biases", "softmax_linear/weights",
                                              "softmax_linear/biases"));
}

TEST(ScenarioCollections, TestingRunsNothingOfTheTrainingTowers) {
  const Program program(2);
  const Tower test = program.graph.GetTowers(kTestModels)[0];
  ASSERT_OK_AND_ASSIGN(const auto step, program.session->Prepare({{test.inputs[0], {5, 2}}, {test.inputs[1], {5}}},
                                                                 program.graph.GetCollection(kLossCollection, "test")));
  for (const ProgramNode& node : step->plan().program.nodes) {
    EXPECT_FALSE(absl::StartsWith(node.name, "train/")) << node.name;
    EXPECT_EQ(node.device, 0) << node.name;
  }
}

TEST(ScenarioCollections, TestingChangesNothingAndFollowsTraining) {
  const Program program(2);
  const Points train = MakeSpiral(1'000, 3), test = MakeSpiral(600, 4);
  const auto test_result = [&] { return RunEpoch(*program.session, test, "test", nullptr, false, 100).value(); };
  const EpochResult before = test_result();
  EXPECT_EQ(test_result().loss, before.loss);
  for (int epoch = 0; epoch < 30; ++epoch) {
    ASSERT_TRUE(RunEpoch(*program.session, train, "train", program.train_op, true, 50).ok());
  }
  const EpochResult after = test_result();
  EXPECT_LT(after.loss, 0.5 * before.loss);
  EXPECT_GT(after.accuracy, 0.85);
}

TEST(ScenarioCollections, TowersTogetherDoWhatOneDoes) {
  const Points points = MakeSpiral(1'200, 5);
  const auto losses = [&](int towers) {
    const Program program(towers);
    std::vector<double> result;
    for (int epoch = 0; epoch < 3; ++epoch) {
      result.push_back(RunEpoch(*program.session, points, "train", program.train_op, true, 60 / towers).value().loss);
    }
    return result;
  };
  const std::vector<double> one = losses(1);
  for (int towers : {2, 3, 4}) {
    const std::vector<double> several = losses(towers);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(several[i], one[i], 1e-4 * one[i]) << towers << " towers";
  }
}

TEST(ScenarioCollections, TheMergedSummariesOfAllTowersAreLossAndAccuracy) {
  const Program program(2);
  std::vector<Feed> feeds;
  const Points points = MakeSpiral(40, 6);
  for (const Tower& tower : program.graph.GetTowers(kTrainModels)) {
    const Points part = points.Rows(20 * tower.index, 20);
    feeds.push_back({tower.inputs[0], part.features});
    feeds.push_back({tower.inputs[1], part.labels});
  }
  const std::vector<Output> merged = program.graph.GetCollection(kMergeSummary, "train");
  std::vector<Output> fetches = merged;
  for (const Output& loss : program.graph.GetCollection(kLossCollection, "train")) fetches.push_back(loss);
  ASSERT_OK_AND_ASSIGN(const auto values, program.session->Run(feeds, fetches));
  const float losses[] = {values[2].scalar<float>(), values[3].scalar<float>()};
  const auto read = [&](ops::TowerSummaries towers) {
    return ops::ReadSummaries(merged, absl::MakeConstSpan(values).subspan(0, 2), towers).value().scalars;
  };
  const auto mean = read(ops::TowerSummaries::kMean);
  ASSERT_EQ(mean.size(), 2u);
  EXPECT_EQ(mean[0].first, "train/loss");
  EXPECT_FLOAT_EQ(mean[0].second, (losses[0] + losses[1]) / 2);
  EXPECT_EQ(mean[1].first, "train/accuracy");
  const auto each = read(ops::TowerSummaries::kEach);
  ASSERT_EQ(each.size(), 4u);
  EXPECT_EQ(each[2].first, "train/tower_1/loss");
  EXPECT_EQ(each[2].second, losses[1]);
}

TEST(ScenarioCollections, AnEpochWithoutAStepIsAnError) {
  const Program program(2);
  const absl::Status status =
      RunEpoch(*program.session, MakeSpiral(10, 1), "train", program.train_op, true, 6).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(RunEpoch(*program.session, MakeSpiral(10, 1), "nowhere", nullptr, false, 1).ok());
}

}  // namespace
}  // namespace belfry
