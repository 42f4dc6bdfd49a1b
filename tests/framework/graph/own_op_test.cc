// A user's own op: registered as a record, then built, differentiated and run.
#include <memory>
#include <utility>

#include "framework/base/parallel.h"
#include "framework/device/device_set.h"
#include "framework/graph/gradients.h"
#include "framework/graph/kernel_table.h"
#include "framework/runtime/check_gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

template <class T>
absl::StatusOr<Kernel> MakeCube(const KernelSpec& spec) {
  const int64_t n = spec.inputs[0].shape.elements();
  const T factor = static_cast<T>(spec.attrs.Float("factor"));
  return Kernel{[n, factor](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    for (int64_t i = 0; i < n; ++i) y[i] = factor * x[i] * x[i] * x[i];
    return absl::OkStatus();
  }};
}

OpDef Cube() {
  return {.name = "Cube",
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", kWideFloatTypes}},
          .attrs = {{"factor", 1.0}},
          .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
            return std::vector<Shape>{args.inputs[0]};
          },
          .gradient =
              [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                const Output slope =
                    ops::Scale(scope, ops::Square(scope, node.input(0)), 3 * node.attrs().Float("factor"));
                return std::vector<Output>{ops::Mul(scope, dy[0], slope)};
              },
          .in_place = {{0, 0}},
          .kernels = Kernels<float, double>("CPU", [](auto tag) { return &MakeCube<typename decltype(tag)::type>; })};
}

TEST(OwnOp, IsBuiltDifferentiatedAndRun) {
  OpRegistry registry = BuiltinOps();
  registry.Add(Cube());
  Graph graph(registry);
  const Scope root(graph);
  const Output x = ops::Placeholder(root, DType::kFloat64, {Shape::kUnknown});
  const Output y = root.Add("Cube", {x}, {{"factor", 2.0}});
  ASSERT_TRUE(y.valid()) << graph.status();
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root, {y}, {x}));
  for (const char* spec : {"cpu:1", "cpu:2"}) {
    const DeviceSet devices = DeviceSet::Open(spec).value();
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices));
    ASSERT_OK_AND_ASSIGN(auto result, session->Run({{x, Tensor::Of<double>({1, -2, 0.5})}}, {y, gradients[0]}));
    EXPECT_EQ(result[0].ToDoubles(), (std::vector<double>{2, -16, 0.25}));
    EXPECT_EQ(result[1].ToDoubles(), (std::vector<double>{6, 24, 1.5}));
  }
}

TEST(OwnOp, IsMadeForOneThreadIfItSaysThatItNeedsFewOperations) {
  double flops = 0;
  int threads = 0;
  OpDef op = Cube();
  op.flops = [&flops](const KernelSpec&) { return flops; };
  op.kernels = Kernels<float, double>("CPU", [&threads](auto tag) {
    return [&threads](const KernelSpec& spec) {
      threads = ParallelThreads();
      return MakeCube<typename decltype(tag)::type>(spec);
    };
  });
  OpRegistry registry = BuiltinOps();
  registry.Add(op);
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 3}).value();
  for (const auto& [wanted, count] : {std::pair(1e3, 1), std::pair(1e9, 3)}) {
    flops = wanted;
    Graph graph(registry);
    const Scope root(graph);
    const Output x = ops::Placeholder(root, DType::kFloat64, {2});
    const Output y = root.Add("Cube", {x});
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices, {.fuse = false}));
    ASSERT_TRUE(session->Run({{x, Tensor::Of<double>({1, 2})}}, {y}).ok());
    EXPECT_EQ(threads, count);
  }
}

TEST(OwnOp, PassesTheGradientChecker) {
  OpRegistry registry = BuiltinOps();
  registry.Add(Cube());
  Graph graph(registry);
  const Scope root(graph);
  const Output x = ops::Placeholder(root, DType::kFloat64, {3});
  const Output y = root.Add("Cube", {x});
  EXPECT_EQ(CheckGradients(root, {y}, {x}, {{x, Tensor::Of<double>({1, -2, 0.5})}}), absl::OkStatus());
}

TEST(OwnOp, WithoutAKernelForTheDTypeCannotBePlaced) {
  OpRegistry registry = BuiltinOps();
  OpDef cube = Cube();
  cube.kernels.pop_back();
  registry.Add(std::move(cube));
  Graph graph(registry);
  const Scope root(graph);
  root.Named("mine").Add("Cube", {ops::Const(root, 1.0)});
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices);
  EXPECT_THAT(session.status().message(), HasSubstr("'mine'"));
  EXPECT_THAT(session.status().message(), HasSubstr("Cube"));
}

TEST(OpRegistry, FindsWhatWasAdded) {
  OpRegistry registry;
  EXPECT_EQ(registry.Find("Cube"), nullptr);
  registry.Add(Cube());
  ASSERT_NE(registry.Find("Cube"), nullptr);
  EXPECT_EQ(registry.Find("cube"), nullptr);
  EXPECT_EQ(registry.ops().size(), 1u);
}

TEST(OpRegistry, TakesKernelsOfABackEnd) {
  OpRegistry registry;
  registry.Add(Cube());
  EXPECT_TRUE(registry.Find("Cube")->KernelsFor("GPU").empty());
  registry.AddKernels("Cube", {{"GPU", DType::kFloat32, &MakeCube<float>}});
  EXPECT_FALSE(registry.Find("Cube")->KernelsFor("GPU").empty());
  EXPECT_NE(registry.Find("Cube")->FindKernel("GPU", DType::kFloat32), nullptr);
  EXPECT_EQ(registry.Find("Cube")->FindKernel("GPU", DType::kFloat64), nullptr);
}

TEST(OpRegistry, KnowsKernelsThatReplaceOthers) {
  OpRegistry registry;
  registry.SetLateKernels(std::make_shared<LazyKernelTable>("GPU", [] {
    KernelTable table;
    table.AddKernels("Cube", {{"GPU", DType::kFloat32, &MakeCube<float>}});
    return table;
  }));
  registry.Add(Cube());
  const OpDef& cube = *registry.Find("Cube");
  EXPECT_FALSE(cube.HasReplacement("CPU", DType::kFloat32));
  EXPECT_FALSE(cube.HasReplacement("GPU", DType::kFloat32));
  registry.AddKernels("Cube",
                      {{"CPU", DType::kFloat32, &MakeCube<float>}, {"GPU", DType::kFloat64, &MakeCube<double>}});
  EXPECT_TRUE(cube.HasReplacement("CPU", DType::kFloat32));
  EXPECT_FALSE(cube.HasReplacement("CPU", DType::kFloat64));
  EXPECT_FALSE(cube.HasReplacement("GPU", DType::kFloat64));  // there was none
  EXPECT_FALSE(cube.HasReplacement("GPU", DType::kFloat32));
  registry.AddKernels("Cube", {{"GPU", DType::kFloat32, &MakeCube<float>}});
  EXPECT_TRUE(cube.HasReplacement("GPU", DType::kFloat32));  // in the place of the module's
}

TEST(OpRegistryDeathTest, ChecksDefinitions) {
  OpRegistry registry;
  registry.Add(Cube());
  EXPECT_DEATH(registry.Add(Cube()), "");  // twice
  OpDef no_shape = Cube();
  no_shape.name = "NoShape";
  no_shape.shape = nullptr;
  EXPECT_DEATH(registry.Add(no_shape), "");
  OpDef both = Cube();
  both.name = "Both";
  both.not_differentiable = true;
  EXPECT_DEATH(registry.Add(both), "");
  EXPECT_DEATH(registry.AddKernels("Unknown", {}), "");
}

}  // namespace
}  // namespace belfry
