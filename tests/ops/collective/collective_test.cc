// Gradients of collectives, for losses that several towers train together.
#include <cmath>

#include "framework/base/status.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

constexpr int kTowers = 3;
constexpr double kWeights[] = {2, 0, 5};
constexpr double kFactors[] = {1, 100, -3};
const Tensor kX[] = {Tensor::Of<double>({0.5, 2}), Tensor::Of<double>({NAN, NAN}), Tensor::Of<double>({-1, 1})};

enum class Reduction { kMean, kSum, kBroadcast };

// Tower r's loss is factor_r sum(z^2), where z is the reduction of all x_r. Returns d loss_r / d x_r for each tower.
absl::StatusOr<std::vector<Tensor>> Slopes(Reduction reduction, const std::string& devices_spec, int towers) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(devices_spec));
  Graph graph(BuiltinOps());
  std::vector<Output> slopes;
  for (int r = 0; r < towers; ++r) {
    const Scope tower = Scope(graph).Device("/cpu:" + std::to_string(r % devices.size()));
    const CollectiveOptions options{.group = "group", .rank = r, .size = towers};
    // A sum includes the tower without examples, whose value would make it NaN.
    const Output x = Const(tower, reduction == Reduction::kMean ? kX[r] : kX[r == 1 ? 0 : r]);
    const Output unused = Const(tower, 1.0);
    const Output weight = Const(tower, static_cast<float>(kWeights[r]));
    std::vector<Output> z;
    switch (reduction) {
      case Reduction::kMean: z = AllReduceMean(tower, options, weight, {unused, x}); break;
      case Reduction::kSum: z = AllReduceSum(tower, options, {unused, x}); break;
      case Reduction::kBroadcast: z = Broadcast(tower, options, {unused, x}); break;
    }
    RETURN_IF_ERROR(graph.status());
    const Output loss = Scale(tower, Sum(tower, Square(tower, z[1])), kFactors[r]);
    ASSIGN_OR_RETURN(const std::vector<Output> slope, Gradients(tower, {loss}, {x}));
    slopes.push_back(slope[0]);
  }
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  return session->Run(slopes);
}

class AllReduceGradient : public ::testing::TestWithParam<const char*> {};

TEST_P(AllReduceGradient, OfAMeanIsTheMean) {
  ASSERT_OK_AND_ASSIGN(const auto slopes, Slopes(Reduction::kMean, GetParam(), kTowers));
  for (int i = 0; i < 2; ++i) {
    double mean = 0, slope = 0, weights = 0;
    for (int r : {0, 2}) {
      mean += kWeights[r] * kX[r].data<double>()[i];
      weights += kWeights[r];
    }
    mean /= weights;
    for (int r : {0, 2}) slope += kWeights[r] * kFactors[r] * 2 * mean / weights;
    for (int r = 0; r < kTowers; ++r) EXPECT_NEAR(slopes[r].ToDoubles()[i], slope, 1e-6) << "tower " << r;
  }
}

TEST_P(AllReduceGradient, OfASumIsTheSum) {
  ASSERT_OK_AND_ASSIGN(const auto slopes, Slopes(Reduction::kSum, GetParam(), kTowers));
  for (int i = 0; i < 2; ++i) {
    const double sum = 2 * kX[0].data<double>()[i] + kX[2].data<double>()[i];
    const double slope = (kFactors[0] + kFactors[1] + kFactors[2]) * 2 * sum;
    for (int r = 0; r < kTowers; ++r) EXPECT_NEAR(slopes[r].ToDoubles()[i], slope, 1e-9) << "tower " << r;
  }
}

TEST_P(AllReduceGradient, OfOneTowerIsItsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto slopes, Slopes(Reduction::kMean, GetParam(), 1));
  EXPECT_THAT(slopes[0].ToDoubles(), ::testing::ElementsAre(1, 4));
}

TEST_P(AllReduceGradient, OfABroadcastIsAnError) {
  const auto slopes = Slopes(Reduction::kBroadcast, GetParam(), kTowers);
  EXPECT_THAT(slopes.status().message(), HasSubstr("No gradient flows through the broadcast 'AllReduce'"));
}

INSTANTIATE_TEST_SUITE_P(Devices, AllReduceGradient, ::testing::Values("cpu:1", "cpu:2", "cpu:3"),
                         [](const auto& info) { return std::string(info.param).substr(4); });

}  // namespace
}  // namespace belfry::ops
