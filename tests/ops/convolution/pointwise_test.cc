// Convolutions with filters of 1 x 1, in float32 beside float64, whose kernels are others.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "ops/onednn/primitive.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

class PointwiseTest : public testing::TestWithParam<int> {
 protected:
  // Normal values, which float32 has exactly.
  Tensor Values(const Shape& shape, DType dtype) {
    std::mt19937 random(seed_++);
    std::normal_distribution<float> normal;
    Tensor x(dtype, shape);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float value = normal(random);
      if (dtype == DType::kFloat32) {
        x.data<float>()[i] = value;
      } else {
        x.data<double>()[i] = value;
      }
    }
    return x;
  }
  // The outputs of `op`, whose inputs have these shapes.
  std::vector<Tensor> Compute(absl::string_view op, const std::vector<Shape>& shapes, DType dtype) {
    seed_ = TestSeed();
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    std::vector<Output> inputs;
    for (const Shape& shape : shapes) inputs.push_back(Const(scope, Values(shape, dtype)));
    return ValueOf(harness::Evaluate(scope.AddAll(op, inputs), {}));
  }
  // Compares with float64. A sum of n products is rounded n times, each time by at most 2^-24 of what has been added
  // up, which is about as large as the largest result; n errors of random sign add up to the root of n. Times 4 for
  // chance.
  void Compare(absl::string_view op, const std::vector<Shape>& shapes, int64_t terms) {
    const std::vector<Tensor> expected = Compute(op, shapes, DType::kFloat64);
    const ScopedParallelThreads threads(GetParam());
    const std::vector<Tensor> actual = Compute(op, shapes, DType::kFloat32);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k) {
      const std::vector<double> a = actual[k].ToDoubles(), b = expected[k].ToDoubles();
      ASSERT_EQ(a.size(), b.size());
      double largest = 1;
      for (const double value : b) largest = std::max(largest, std::abs(value));
      const double bound = 4 * std::sqrt(static_cast<double>(terms)) * 0x1p-24 * largest;
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << op << ", output " << k << " at " << i;
    }
  }
  void CompareAll(const Shape& x, int64_t k) {
    const int64_t c = x[3], rows = x.elements() / c;
    SCOPED_TRACE(absl::StrCat(x.ToString(), " to ", k, " channels"));
    const Shape filter({1, 1, c, k}), y({x[0], x[1], x[2], k});
    Compare("Conv2D", {x, filter}, c);
    Compare("FusedConv2D", {x, filter, Shape({k})}, c);
    Compare("Conv2DBackpropInput", {x, filter, y}, k);
    Compare("Conv2DBackpropInputReluGrad", {x, filter, y, x}, k);
    Compare("Conv2DBackpropInputAddReluGrad", {x, filter, y, x, x}, k);
    Compare("Conv2DBackpropFilter", {x, filter, y}, rows);
    Compare("Conv2DBackpropFilterBias", {x, filter, y}, rows);
  }

 private:
  uint32_t seed_ = 0;
};

TEST_P(PointwiseTest, AreProducts) {
  CompareAll({2, 3, 5, 16}, 32);
  CompareAll({1, 1, 1, 1}, 1);
  CompareAll({3, 7, 1, 65}, 79);
  CompareAll({1, 13, 11, 24}, 24);
}

// Filters whose gradients are direct convolutions.
TEST_P(PointwiseTest, LargeFilters) {
  CompareAll({3, 5, 7, 311}, 332);
  CompareAll({1, 2, 2, 1024}, 256);
}

INSTANTIATE_TEST_SUITE_P(Threads, PointwiseTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace belfry::ops
