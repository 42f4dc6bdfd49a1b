#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/philox.h"
#include "framework/compiler/eager.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

// Passes ones [examples, 37] through two dropouts, in a tower whose part of the global batch starts at `first`, in step
// `step`.
std::vector<std::vector<double>> InTower(int index, int64_t first, int64_t examples, int64_t step, double rate = 0.3) {
  Graph graph(BuiltinOps());
  Scope tower = Scope(graph).NameScope(absl::StrCat("tower_", index));
  tower = tower.RandomCounters(Const(tower, step), Const(tower, first));
  const Output ones = Fill(tower, {examples, 37}, 1);
  const Output a = Dropout(tower.NameScope("layer"), ones, rate), b = Dropout(tower.NameScope("layer"), ones, rate);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return {Value(a)->ToDoubles(), Value(b)->ToDoubles()};
}

TEST(Dropout, DoesNotDependOnTheTowers) {
  const auto whole = InTower(0, 0, 6, 5), low = InTower(0, 0, 2, 5), high = InTower(1, 2, 4, 5);
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<double> joined = low[layer];
    joined.insert(joined.end(), high[layer].begin(), high[layer].end());
    EXPECT_EQ(joined, whole[layer]);
  }
}

TEST(Dropout, DependsOnStepLayerAndExample) {
  const auto masks = InTower(0, 0, 2, 5), later = InTower(0, 0, 2, 6);
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[0], later[0]);
  EXPECT_FALSE(std::equal(masks[0].begin(), masks[0].begin() + 37, masks[0].begin() + 37));
}

TEST(Dropout, KeepsTheMean) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const std::vector<double> y = InTower(0, 0, 2000, 1, rate)[0];
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
    const auto n = static_cast<double>(y.size());
    EXPECT_NEAR(dropped / n, rate, 5 * std::sqrt(rate * (1 - rate) / n) + 1e-12);
    EXPECT_NEAR(*std::max_element(y.begin(), y.end()), 1 / (1 - rate), 1e-5);
  }
}

TEST(Dropout, DropsTheElementsOfItsDefinition) {
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).RandomCounters(Const(Scope(graph), int64_t{9}), Const(Scope(graph), int64_t{7}));
  const Output y = Dropout(scope, Fill(scope, {2, 1283}, 1), 0.25);
  const std::vector<double> values = Value(y)->ToDoubles();
  const Attrs& attrs = y.node->attrs();
  const uint64_t key = RandomKey(static_cast<uint64_t>(attrs.Int("seed")), attrs.String("key"));
  for (uint64_t i = 0; i < values.size(); ++i) {
    const uint64_t example = 7 + i / 1283, element = i % 1283;
    const uint32_t word = Philox4x32(key, 9, (example << 32) + element / 8)[element % 8 / 2];
    EXPECT_EQ(values[i] != 0, (element % 2 == 0 ? word & 0xffff : word >> 16) >= 0x4000) << "element " << i;
  }
}

// Half of the elements whose first 16 bits are 0 are dropped.
TEST(Dropout, TakesRatesBelowSixteenBits) {
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).RandomCounters(Const(Scope(graph), int64_t{1}), Const(Scope(graph), int64_t{0}));
  const Output kept = Sum(scope, Dropout(scope, Fill(scope, {1024, 4096}, 1), 0x1p-17));
  EXPECT_NEAR(Value(kept)->ToDoubles()[0] * (1 - 0x1p-17), 4194304 - 32, 28);
}

TEST(Dropout, WithoutCountersTheRunCounts) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output y = Dropout(scope, Fill(scope, {50}, 1), 0.5);
  const auto at = [&](uint64_t run) {
    return RunOp(y.node->op(), y.node->attrs(), {Tensor::Of<float>(std::vector<float>(50, 1), {50})}, run)
        .value()[0]
        .ToDoubles();
  };
  EXPECT_EQ(at(1), at(1));
  EXPECT_NE(at(1), at(2));
}

TEST(Dropout, TheGradientHasTheSameMask) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Fill(scope, {11, 7}, 1), y = Dropout(scope, x, 0.4);
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(scope, {y}, {x}));
  EXPECT_EQ(Value(gradients[0])->ToDoubles(), Value(y)->ToDoubles());
}

}  // namespace
}  // namespace belfry::ops
