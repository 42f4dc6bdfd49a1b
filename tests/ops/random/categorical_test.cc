#include <cmath>

#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/random.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

TEST(Categorical, DrawsWithTheProbabilitiesOfSoftmax) {
  constexpr int64_t kRows = 20000;
  const std::vector<double> probabilities = {0.05, 0.25, 0, 0.7};
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output logits = Placeholder(scope, DType::kFloat32, {-1, 4});
  const Output drawn = Categorical(scope, logits, {.dtype = DType::kInt32});
  Tensor fed(DType::kFloat32, {kRows, 4});
  for (int64_t i = 0; i < fed.elements(); ++i) {
    fed.data<float>()[i] = static_cast<float>(std::log(probabilities[static_cast<size_t>(i % 4)])) + 3;
  }
  DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices).value();
  ASSERT_OK_AND_ASSIGN(const auto first, session->Run({{logits, fed}}, {drawn}));
  const auto second = session->Run({{logits, fed}}, {drawn});
  EXPECT_EQ(first[0].shape(), Shape({kRows}));
  std::vector<double> counts(4);
  for (int64_t i = 0; i < kRows; ++i) ++counts[static_cast<size_t>(first[0].data<int32_t>()[i])];
  EXPECT_EQ(counts[2], 0);
  for (size_t i = 0; i < 4; ++i) {
    const double p = probabilities[i];
    EXPECT_NEAR(counts[i] / kRows, p, 4 * std::sqrt(p * (1 - p) / kRows)) << i;
  }
  EXPECT_NE(first[0].ToDoubles(), (*second)[0].ToDoubles());
}

// Softmax does not change when a number is added to all logits.
TEST(Categorical, DrawsTheSameWithLargeLogits) {
  constexpr int64_t kRows = 20000;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double large = dtype == DType::kFloat32 ? 1e7 : 256;
    const double least = dtype == DType::kFloat32 ? 1 : 2;
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    Tensor fed(DType::kFloat32, {kRows, 3});
    for (int64_t i = 0; i < fed.elements(); ++i) fed.data<float>()[i] = static_cast<float>(i % 3 == 2 ? -least : 0);
    const Output logits = Const(scope, fed), offset = Fill(scope, {}, large);
    const RandomOptions options{.dtype = DType::kInt32, .per_step = false, .key = "same"};
    const Output small = Categorical(scope, Cast(scope, logits, dtype), options);
    const Output moved = Categorical(scope, Cast(scope, Add(scope, logits, offset), dtype), options);
    DeviceSet devices = DeviceSet::Open("cpu:1").value();
    ASSERT_OK_AND_ASSIGN(const auto drawn, Session::Create(graph, devices).value()->Run({}, {small, moved}));
    EXPECT_EQ(drawn[0].ToDoubles(), drawn[1].ToDoubles()) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace belfry::ops
