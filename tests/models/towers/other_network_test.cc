// A second network in a tower, whose variables lie at a path of their own.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/towers/replicate_towers.h"
#include "optim/descent.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

constexpr int64_t kExamples = 12;

// The losses of three steps with dropout in the second network.
std::vector<double> Losses(int towers, bool own_path) {
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  const auto model = [own_path](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Scope net = own_path ? tower.Variables("net") : tower.VariableScope("net");
    const Output x = Dense(tower, "first", batch["x"], 8);
    return ops::Mean(tower,
                     ops::Square(tower, Dense(net, "second", Dropout(net, "drop", x, 0.5, /*training=*/true), 2)));
  };
  const std::vector<data::Field> fields = {{"x", DType::kFloat32, {5}}};
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, fields, model, optim::GradientDescent({.learning_rate = 0.1}));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_TRUE(graph.FindVariable("net/second/weights", 0).valid());
  const auto session = Session::Create(graph, devices).value();
  EXPECT_TRUE(session->RunTarget(step.initialize).ok());
  std::vector<double> losses;
  for (int s = 0; s < 3; ++s) {
    std::vector<Feed> feeds;
    for (int t = 0; t < towers; ++t) {
      const int64_t n = kExamples / towers;
      Tensor x(DType::kFloat32, {n, 5});
      for (int64_t i = 0; i < x.elements(); ++i)
        x.data<float>()[i] = std::sin(static_cast<float>(t * x.elements() + i + s));
      feeds.push_back({step.towers[t].batch["x"], x});
    }
    losses.push_back(ValueOf(session->Run(feeds, {step.loss}, {step.update}))[0].scalar<float>());
  }
  return losses;
}

// Dropout keeps the same units for any number of towers, since its counters are the tower's.
TEST(OtherNetwork, IsTheSameInAnyNumberOfTowers) {
  const std::vector<double> expected = Losses(1, /*own_path=*/false);
  EXPECT_NE(expected[0], expected[1]);
  for (const int towers : {1, 2, 3}) {
    EXPECT_THAT(Losses(towers, /*own_path=*/true), ::testing::Pointwise(::testing::FloatNear(1e-5f), expected))
        << towers;
  }
}

}  // namespace
}  // namespace belfry::models
