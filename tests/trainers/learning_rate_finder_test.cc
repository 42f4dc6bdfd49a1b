// The search for a learning rate, against a plain loop.
#include "trainers/loop/learning_rate_finder.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "ops/math.h"
#include "tests/framework/base/same_bits.h"
#include "tests/trainers/experiment.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

// The loss (w - 3)^2 / 2 + 1 of a weight that starts at 0, on examples that do not matter.
struct Parabola {
  explicit Parabola(const std::string& spec) : devices(DeviceSet::Open(spec, {.cpu_threads = 1}).value()) {
    const auto towers = static_cast<int>(devices.TowerDevices().size());
    input = data::Prefetcher::Create(*dataset, {.batch_size = 10, .towers = towers, .local_towers = towers}).value();
    const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Variable w = GetVariable(tower, "w", {}, ZerosInitializer());
      const Output zero = ops::Scale(tower, ops::Mean(tower, batch["point"]), 0);
      const Output half = ops::Scale(tower, ops::Square(tower, ops::Sub(tower, w, ops::Const(tower, 3.f))), 0.5);
      return ops::Add(tower, ops::Add(tower, half, ops::Const(tower, 1.f)), zero);
    };
    step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::Momentum({.learning_rate = 0.1}));
    session = Session::Create(graph, devices).value();
  }
  std::unique_ptr<data::Dataset> dataset = Blobs(50, 3);
  DeviceSet devices;
  std::unique_ptr<data::Prefetcher> input;
  Graph graph{BuiltinOps()};
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

TEST(FindLearningRateTest, EqualsAPlainLoop) {
  for (const char* const spec : {"cpu:1", "cpu:3"}) {
    Parabola run(spec);
    const auto found =
        FindLearningRate(*run.session, run.step, *run.input, {.low = 1e-3, .high = 100, .steps = 60, .smoothing = 0.5});
    ASSERT_EQ(found.status(), absl::OkStatus());
    double w = 0, a = 0, average = 0, lowest = 1e9, steepest = 0, lowest_rate = 0, best_slope = 0;
    std::vector<double> rates, smoothed;
    for (int i = 0; i < 60; ++i) {
      const double rate = 1e-3 * std::pow(1e5, i / 59.0), loss = (w - 3) * (w - 3) / 2 + 1;
      average = 0.5 * average + 0.5 * loss;
      rates.push_back(rate);
      smoothed.push_back(average / (1 - std::pow(0.5, i + 1)));
      if (smoothed.back() < lowest) lowest = smoothed.back(), lowest_rate = rate;
      if (smoothed.back() > 4 * lowest) break;
      a = 0.9 * a + w - 3;
      w -= rate * a;
    }
    for (size_t i = 1; i + 1 < rates.size(); ++i) {
      const double slope = smoothed[i + 1] - smoothed[i - 1];
      if (slope < best_slope) best_slope = slope, steepest = rates[i];
    }
    ASSERT_LT(rates.size(), 60u) << "ends when it diverges";
    ASSERT_EQ(found->tried.size(), rates.size());
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(found->tried[i].rate, rates[i], 1e-9 * rates[i]);
      EXPECT_NEAR(found->tried[i].smoothed, smoothed[i], 1e-4 * smoothed[i]);
    }
    EXPECT_NEAR(found->steepest, steepest, 1e-9);
    EXPECT_NEAR(found->lowest, lowest_rate, 1e-9);
    EXPECT_THAT(LearningRateTable(*found), HasSubstr(absl::StrFormat("Suggestion: --learning_rate=%.2g", steepest)));
  }
}

// A training that begins after a search, or in which one takes place, has the bits of one without.
TEST(FindLearningRateTest, LeavesNoTrace) {
  std::vector<std::vector<Tensor>> ends;
  for (const bool searches : {false, true}) {
    Experiment run("cpu:2", 12, 0.1, 3, {}, 0.9);
    const auto search = [&] {
      if (searches) {
        EXPECT_EQ(FindLearningRate(*run.session, run.step, *run.input).status(), absl::OkStatus());
      }
    };
    search();
    ASSERT_EQ(Trainer(*run.session, run.step, *run.input, {.steps = 7, .quiet = true}).Run(), absl::OkStatus());
    search();
    ASSERT_EQ(Trainer(*run.session, run.step, *run.input, {.steps = 15, .quiet = true}).Run(), absl::OkStatus());
    std::vector<Tensor>& end = ends.emplace_back();
    for (const Variable& variable : run.graph.variables()) {
      end.push_back(run.session->ReadVariable(variable).value().Clone());
    }
  }
  ASSERT_EQ(ends[0].size(), ends[1].size());
  for (size_t i = 0; i < ends[0].size(); ++i) EXPECT_TRUE(SameBits(ends[0][i], ends[1][i])) << i;
}

TEST(FindLearningRateTest, OptionsOutOfRange) {
  Parabola run("cpu:1");
  for (const LearningRateSearch& search :
       {LearningRateSearch{.low = 0}, {.low = 1, .high = 1}, {.steps = 9}, {.smoothing = 1}, {.divergence = 1}}) {
    EXPECT_EQ(FindLearningRate(*run.session, run.step, *run.input, search).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(LearningRateTable({.tried = {{1, 2, 2}}, .steepest = std::nan("")}), HasSubstr("falls at none"));
}

}  // namespace
}  // namespace belfry::trainers
