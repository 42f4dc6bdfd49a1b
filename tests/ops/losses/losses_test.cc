#include <cmath>
#include <string>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/harness/special_values.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

std::vector<double> GradientOf(const Scope& scope, Output loss, Output x) {
  const auto gradients = ValueOf(Gradients(scope, {loss}, {x}));
  return Value(gradients[0])->ToDoubles();
}

TEST(KlDivergence, ClassesWithoutProbabilityContributeNothing) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output p = Const(scope, {0.f, 1.f}), log_q = Const(scope, {-kInfinity, std::log(0.5f)});
  const Output y = KlDivergence(scope, p, log_q);
  EXPECT_NEAR(Value(y)->ToDoubles()[0], std::log(2.0), 1e-6);
  EXPECT_THAT(GradientOf(scope, y, log_q), ::testing::ElementsAre(0, -1));
}

TEST(KlDivergence, NaNStays) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output good = Const(scope, {0.5f, 0.5f}), bad = Const(scope, {0.5f, kNaN});
  EXPECT_TRUE(std::isnan(Value(KlDivergence(scope, bad, good))->ToDoubles()[0]));
  EXPECT_TRUE(std::isnan(Value(KlDivergence(scope, good, bad))->ToDoubles()[0]));
}

TEST(HuberLoss, OfSpecialValuesAndItsSlopesAtTheEnds) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Const(scope, {kInfinity, kNaN, 2.f, -0.5f, 0.f}), y = HuberLoss(scope, x, ZerosLike(scope, x), 1);
  const std::vector<double> loss = Value(y)->ToDoubles();
  EXPECT_EQ(loss[0], kInfinity);
  EXPECT_TRUE(std::isnan(loss[1]));
  EXPECT_EQ(loss[2], 1.5);
  EXPECT_EQ(loss[3], 0.125);
  EXPECT_EQ(loss[4], 0);
  const std::vector<double> slope = GradientOf(scope, y, x);
  EXPECT_EQ(slope[0], 1);
  EXPECT_EQ(slope[2], 1);
  EXPECT_EQ(slope[3], -0.5);
  EXPECT_EQ(slope[4], 0);
}

TEST(Losses, RefuseWhatDoesNotFit) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_FALSE(HuberLoss(scope.Named("loss"), Const(scope, {1.f}), Const(scope, {1.f}), -2).valid());
  EXPECT_THAT(graph.status().message(), HasSubstr("delta must be positive, but is -2"));
  Graph other(BuiltinOps());
  const Scope there(other);
  EXPECT_FALSE(MeanSquaredLoss(there, Const(there, {1.f}), Const(there, {1.f, 2.f})).valid());
  EXPECT_THAT(other.status().message(), HasSubstr("needs two tensors of one shape and dtype"));
}

TEST(Norms, OfZerosAndNaN) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Const(scope, Tensor::Of<float>({0, 0, 1, kNaN, 1, kInfinity}, {3, 2})),
               one = Const(scope, {1.f, 1.f});
  const std::vector<Output> results = {RmsNorm(scope, x, one), LayerNorm(scope, x, one, ZerosLike(scope, one)),
                                       GroupNorm(scope, x, one, ZerosLike(scope, one), 1)};
  for (const Output& y : results) {
    const std::vector<double> values = Value(y)->ToDoubles();
    EXPECT_EQ(values[0], 0);
    EXPECT_EQ(values[1], 0);
    EXPECT_TRUE(std::isnan(values[2]) && std::isnan(values[3]) && std::isnan(values[5]));
  }
}

TEST(GroupNorm, RefusesGroupsOfDifferentSizes) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output one = Const(scope, {1.f, 1.f, 1.f});
  GroupNorm(scope, Const(scope, Tensor::Zeros(DType::kFloat32, {2, 3})), one, one, 2);
  EXPECT_THAT(graph.status().message(), HasSubstr("cannot split 3 channels into 2 groups"));
}

}  // namespace
}  // namespace belfry::ops
