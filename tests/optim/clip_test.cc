#include "optim/clip.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <limits>
#include <random>

#include "framework/base/parallel.h"
#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/training.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

class ClipTest : public ::testing::Test {
 protected:
  std::vector<double> Value(Output output) { return GraphRunner(graph_).Run({output})[0].ToDoubles(); }

  Graph graph_{BuiltinOps()};
  Scope root_{graph_};
};

TEST_F(ClipTest, ByValueMovesEachElementIntoTheBounds) {
  const Output gradient = ops::Const(root_, {-3.0, 0.5, 2.0});
  const std::vector<Output> clipped = ClipByValue(root_, {gradient, Output()}, 1);
  EXPECT_THAT(Value(clipped[0]), ElementsAre(-1, 0.5, 1));
  EXPECT_FALSE(clipped[1].valid());
}

TEST_F(ClipTest, ByNormScalesEachTensor) {
  const Output large = ops::Const(root_, {3.0, 4.0}), small = ops::Const(root_, {0.5, 0.5});
  const std::vector<Output> clipped = ClipByNorm(root_, {large, Output(), small}, 2.5);
  EXPECT_THAT(Value(clipped[0]), ElementsAre(1.5, 2));
  EXPECT_FALSE(clipped[1].valid());
  EXPECT_THAT(Value(clipped[2]), ElementsAre(0.5, 0.5));
}

TEST_F(ClipTest, ByGlobalNormScalesAllAlike) {
  const Output a = ops::Const(root_, {6.f, 0.f, 0.f}), b = ops::Const(root_, {8.f}, {1, 1});
  const ClippedByGlobalNorm clipped = ClipByGlobalNorm(root_, {a, Output(), b}, 5);
  EXPECT_THAT(Value(clipped.norm), ElementsAre(10));
  EXPECT_THAT(Value(clipped.gradients[0]), ElementsAre(3, 0, 0));
  EXPECT_FALSE(clipped.gradients[1].valid());
  EXPECT_THAT(Value(clipped.gradients[2]), ElementsAre(4));
  EXPECT_THAT(Value(ClipByGlobalNorm(root_, {a, b}, 11).gradients[0]), ElementsAre(6, 0, 0));
}

TEST_F(ClipTest, WhatIsNotFiniteShows) {
  const Output a = ops::Const(root_, {1.f, std::numeric_limits<float>::infinity()}), b = ops::Const(root_, {2.f});
  for (const Output& gradient : ClipByGlobalNorm(root_, {a, b}, 1).gradients) {
    EXPECT_THAT(Value(gradient), ::testing::Each(::testing::IsNan()));
  }
}

TEST_F(ClipTest, NormOfLargeTensorsInEveryDtype) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Tensor x(DType::kFloat64, {30011});
  double squares = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<double>()[i] = uniform(random);
    squares += x.data<double>()[i] * x.data<double>()[i];
  }
  const Output whole = ops::Const(root_, x);
  for (const auto& [dtype, tolerance] : std::vector<std::pair<DType, double>>{
           {DType::kFloat64, 1e-5}, {DType::kFloat32, 1e-5}, {DType::kFloat16, 1e-2}, {DType::kBFloat16, 0.1}}) {
    const Output cast = ops::Cast(root_, whole, dtype);
    std::vector<double> one, two;
    {
      ScopedParallelThreads threads(1);
      one = Value(ops::GlobalNorm(root_, {cast, cast}));
    }
    ScopedParallelThreads threads(2);
    two = Value(ops::GlobalNorm(root_, {cast, cast}));
    EXPECT_THAT(one, ElementsAre(DoubleNear(std::sqrt(2 * squares), tolerance))) << DTypeName(dtype);
    EXPECT_EQ(one, two);
  }
}

TEST_F(ClipTest, Empty) {
  EXPECT_FALSE(ClipByGlobalNorm(root_, {Output()}, 1).norm.valid());
  const Output empty = ops::Const(root_, Tensor(DType::kFloat32, {0, 4}));
  EXPECT_THAT(Value(ops::GlobalNorm(root_, {empty})), ElementsAre(0));
  EXPECT_THAT(Value(ClipByNorm(root_, {empty}, 1)[0]), ElementsAre());
}

TEST_F(ClipTest, TheBoundIsPositive) {
  EXPECT_FALSE(ClipByNorm(root_, {ops::Const(root_, {1.f})}, 0)[0].valid());
  EXPECT_THAT(graph_.status().message(), ::testing::HasSubstr("'clip_norm' must be positive"));
}

}  // namespace
}  // namespace belfry::optim
