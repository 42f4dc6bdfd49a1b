// The code around a library's GPU kernels, on fake GPUs with a library: the library is used, except where its results
// differ from ours. Op cases compare the results with the CPU's.
#include <algorithm>
#include <random>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/fake_gpu/fake_libraries.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

using harness::NodeRun;

class GpuLibrariesTest : public testing::Test {
 protected:
  // Images with few distinct values, so that windows contain ties.
  Output Images(const Shape& shape) {
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(random_() % 5);
    return Const(scope_, x);
  }
  Output Vector(int64_t n) { return Images({n}); }

  // Runs the node of op `op` that y or the gradient of x needs on a fake GPU, and compares it with the CPU. Returns the
  // number of runs of the library, including trials and measurements.
  int LibraryRuns(absl::string_view op, const Output& y, const Output& x) {
    const auto gradients = Gradients(scope_, {Mul(scope_, y, Images(y.shape()))}, {x});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return -1;
    std::vector<NodeRun> trace;
    EXPECT_EQ(harness::Evaluate({y, (*gradients)[0]}, {}, &trace).status(), absl::OkStatus());
    const auto node = std::find_if(trace.begin(), trace.end(),
                                   [&](const NodeRun& run) { return absl::string_view(run.node->op().name) == op; });
    EXPECT_NE(node, trace.end()) << op;
    if (node == trace.end()) return -1;
    const int before = FakeLibraryRuns();
    const auto outputs = harness::RunKernel(*node, {}, &devices_.device(1));
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    for (size_t k = 0; outputs.ok() && k < outputs->size(); ++k) {
      const std::vector<double> actual = (*outputs)[k].ToDoubles(), expected = node->outputs[k].ToDoubles();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << op << ", output " << k;
    }
    return FakeLibraryRuns() - before;
  }

  DeviceSet devices_ = OpenFakeGpus(1, /*tagged=*/false);
  Graph graph_{BuiltinOps()};
  const Scope scope_{graph_};
  std::mt19937 random_{TestSeed()};
};

TEST_F(GpuLibrariesTest, BatchNormIsMeasuredOnce) {
  const Output x = Images({3, 2, 5, 8});
  const Output y = BatchNorm(scope_, x, Vector(8), Vector(8)).y;
  for (const char* op : {"BatchNorm", "BatchNormGrad"}) {
    EXPECT_EQ(LibraryRuns(op, y, x), 2) << op;
    EXPECT_EQ(LibraryRuns(op, y, x), 1) << op;
  }
}

TEST_F(GpuLibrariesTest, NoBatchNormOfChannelsThatItHasNot) {
  const Output x = Images({3, 2, 5, 7});
  const Output y = BatchNorm(scope_, x, Vector(7), Vector(7)).y;
  EXPECT_EQ(LibraryRuns("BatchNorm", y, x), 0);
  EXPECT_EQ(LibraryRuns("BatchNormGrad", y, x), 0);
}

TEST_F(GpuLibrariesTest, NoBatchNormBesideOtherGpus) {
  const Output x = Images({3, 2, 5, 8});
  const Output y = BatchNorm(scope_, x, Vector(8), Vector(8)).y;
  devices_ = OpenFakeGpus(2, /*tagged=*/false);
  EXPECT_EQ(LibraryRuns("BatchNorm", y, x), 0);
  EXPECT_EQ(LibraryRuns("BatchNormGrad", y, x), 0);
}

TEST_F(GpuLibrariesTest, AveragePooling) {
  const Output x = Images({2, 5, 6, 4});
  const Output y = AvgPool(scope_, x, {.height = 3, .width = 3});
  EXPECT_EQ(LibraryRuns("AvgPool", y, x), 2);
  EXPECT_EQ(LibraryRuns("AvgPoolGrad", y, x), 2);
}

TEST_F(GpuLibrariesTest, TheGradientOfMaximaOnceItWasTried) {
  const Output x = Images({2, 5, 6, 4});
  const Output y = MaxPool(scope_, x, {.height = 3, .width = 3});
  EXPECT_EQ(LibraryRuns("MaxPool", y, x), 0);
  EXPECT_EQ(LibraryRuns("MaxPoolGrad", y, x), 3);
  EXPECT_EQ(LibraryRuns("MaxPoolGrad", y, x), 2);  // tried again
}

TEST_F(GpuLibrariesTest, NoGradientOfOtherWinners) {
  const Output x = Images({3, 5, 6, 4});
  const Output y = MaxPool(scope_, x, {.height = 3, .width = 3});
  EXPECT_EQ(LibraryRuns("MaxPoolGrad", y, x), 1);
  EXPECT_EQ(LibraryRuns("MaxPoolGrad", y, x), 0);  // the choice is remembered
}

}  // namespace
}  // namespace belfry::ops
