// Gather and its gradient on a GPU, with indices that would fail a step on the CPU.
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::harness {
namespace {

using testing::ElementsAre;

// The output of the last node, rerun on a GPU with `indices` in place of its own.
absl::StatusOr<Tensor> OnGpu(Output last, const Tensor& indices) {
  absl::StatusOr<DeviceSet> devices = OpenTestGpus(1);
  if (!devices.ok()) return devices.status();
  std::vector<NodeRun> trace;
  const auto outputs = Evaluate({last}, {}, &trace);
  if (!outputs.ok()) return outputs.status();
  NodeRun run = trace.back();
  run.inputs[1] = indices.Clone();
  auto result = RunKernel(run, {}, &devices->device(1));
  if (!result.ok()) return result.status();
  return std::move(result->front());
}

TEST(GpuGather, IndicesOutsideTheAxisGiveZeros) {
  if (const auto devices = OpenTestGpus(1); !devices.ok()) GTEST_SKIP() << devices.status().message();
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output params = ops::Const(scope, {1.f, 2.f, 3.f, 4.f}, {2, 2});
  const Output indices = ops::Const(scope, {int64_t{0}, int64_t{1}, int64_t{1}, int64_t{0}});
  ASSERT_OK_AND_ASSIGN(
      const auto y, OnGpu(ops::Gather(scope, params, indices), Tensor::Of<int64_t>({-1, 1, 2, int64_t{1} << 40}, {4})));
  EXPECT_THAT(y.ToDoubles(), ElementsAre(0, 0, 3, 4, 0, 0, 0, 0));
}

TEST(GpuGather, GradientsOfIndicesOutsideTheAxisGoNowhere) {
  if (const auto devices = OpenTestGpus(1); !devices.ok()) GTEST_SKIP() << devices.status().message();
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output dy = ops::Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {6, 1});
  const Output indices = ops::Const(scope, {0, 1, 2, 0, 1, 2});
  const Output params = ops::Fill(scope, {3, 1}, 0);
  const Output grad = scope.Add("GatherGrad", {dy, indices, params}, {{"axis", int64_t{0}}});
  ASSERT_OK_AND_ASSIGN(const auto dx, OnGpu(grad, Tensor::Of<int32_t>({2, -1, 3, 2, 0, 1 << 30}, {6})));
  EXPECT_THAT(dx.ToDoubles(), ElementsAre(5, 0, 5));
}

TEST(GpuGather, IndicesOfSeveralAxesOutsideThemAreMarked) {
  absl::StatusOr<DeviceSet> devices = OpenTestGpus(1);
  if (!devices.ok()) GTEST_SKIP() << devices.status().message();
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output indices = ops::Const(scope, {0, 0, 1, 2, 1, 0, 0, 1}, {4, 2});
  const Output params = ops::Fill(scope, {2, 3}, 0);
  std::vector<NodeRun> trace;
  ASSERT_TRUE(Evaluate({scope.Add("FlatIndices", {indices, params})}, {}, &trace).ok());
  NodeRun run = trace.back();
  run.inputs[0] = Tensor::Of<int32_t>({1, 2, -1, 0, 0, 3, 2, 0}, {4, 2});
  ASSERT_OK_AND_ASSIGN(const auto rows, RunKernel(run, {}, &devices->device(1)));
  EXPECT_THAT(rows.front().ToDoubles(), ElementsAre(5, -1, -1, -1));
}

}  // namespace
}  // namespace belfry::harness
