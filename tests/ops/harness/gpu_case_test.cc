// Each GPU kernel against the CPU's, on the inputs of the nodes of a case and of its gradient. Linked with the kernels
// for real GPUs, and with the same kernels compiled for fake ones.
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/infer.h"
#include "ops/builtin_ops.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/op_case_fixture.h"

namespace belfry::harness {
namespace {

class GpuCaseTest : public OpCaseTest {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenTestGpus(1)); }
  Device& gpu() const { return devices_.device(1); }

  void Compare(const NodeRun& run) const {
    const OpDef& op = run.node->op();
    if (op.kind != OpKind::kKernel || op.FindKernel("GPU", KernelDType(op, run.node->attrs())) == nullptr) return;
    ASSERT_OK_AND_ASSIGN(const auto expected, RunKernel(run));
    const auto actual = RunKernel(run, {}, &gpu());
    ASSERT_TRUE(actual.ok()) << op.name << ": " << actual.status();
    ExpectSame(run, *actual, expected, "");
    for (const auto& [in, out] : op.in_place) {
      if (run.inputs[in].shape() != run.outputs[out].shape() || run.inputs[in].dtype() != run.outputs[out].dtype()) {
        continue;
      }
      const auto in_place = RunKernel(run, {in, out}, &gpu());
      ASSERT_TRUE(in_place.ok()) << op.name << ": " << in_place.status();
      ExpectSame(run, *in_place, *actual, " in place");
    }
  }

  void ExpectSame(const NodeRun& run, const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                  const char* how) const {
    ASSERT_EQ(actual.size(), expected.size());
    double rounding = 0;
    for (const Tensor& value : expected) rounding = std::max(rounding, Rounding(value.dtype()));
    for (size_t i = 0; i < actual.size(); ++i) {
      const double more = expected[i].dtype() == DType::kFloat32 ? op_case().float32_error : 0;
      ExpectClose(ToArray(actual[i]), ToArray(expected[i]),
                  rounding * op_case().tolerance + RoundingOfSums(run, rounding, expected[i].elements()) + more,
                  absl::StrCat("output ", i, " of ", run.node->op().name, how));
    }
  }

  // For an op with fewer results, `sums`, than elements.
  static double RoundingOfSums(const NodeRun& run, double rounding, int64_t sums) {
    int64_t elements = 0;
    for (const Tensor& input : run.inputs) elements = std::max(elements, input.elements());
    return elements <= sums || sums == 0 ? 0 : ReorderedSum(elements / sums, rounding);
  }

  DeviceSet devices_;
};

TEST_P(GpuCaseTest, AgreesWithTheCpu) {
  ForAll([&](const Instance& instance, DType dtype, const std::vector<Shape>&) {
    std::vector<NodeRun> trace;
    ASSERT_EQ(Evaluate(instance.outs, instance.feeds, &trace).status(), absl::OkStatus());
    if (op_case().gradient && IsFloating(dtype)) {
      ASSERT_EQ(Gradient(instance, &trace).status(), absl::OkStatus());
    }
    for (const NodeRun& run : trace) {
      Compare(run);
      if (HasFatalFailure()) return;
    }
  });
}

TEST(GpuRegistry, EveryOpHasTheCpusKernels) {
  if (const auto devices = OpenTestGpus(1); !devices.ok()) GTEST_SKIP() << devices.status().message();
  // Those that rewrites make for CPUs only.
  const absl::string_view of_cpus[] = {"BatchNormFilter", "BatchNormBias", "BatchNormRelu6", "BatchNormRelu6Grad"};
  std::string missing;
  for (const auto& [name, op] : BuiltinOps().ops()) {
    if (op.kind != OpKind::kKernel || absl::c_linear_search(of_cpus, name)) continue;
    for (const DType dtype : op.types[0].allowed) {
      if (op.FindKernel("GPU", dtype) == nullptr) absl::StrAppend(&missing, " ", name, "<", DTypeName(dtype), ">");
    }
  }
  EXPECT_EQ(missing, "");
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuCaseTest, testing::ValuesIn(AllCases()),
                         [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; });

}  // namespace
}  // namespace belfry::harness
