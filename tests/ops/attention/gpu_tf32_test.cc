// Attention on GPUs by TF32 against the CPU's, for heads of each kind of width.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/attention.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

using harness::NodeRun;

struct Sizes {
  int64_t n, t, s, heads, kv_heads, width;
  bool causal, masked;
};

class GpuTf32Test : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenTf32TestGpu()); }
  Output Waves(const Shape& shape, double step) {
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = static_cast<float>(2 * std::sin(step * static_cast<double>(i)));
    }
    return Const(scope_, x);
  }
  // The root of the sum of squares of the difference is small beside that of `expected`.
  static void ExpectNear(const Tensor& actual, const Tensor& expected, const std::string& what) {
    const std::vector<double> a = actual.ToDoubles(), e = expected.ToDoubles();
    double error = 0, size = 0;
    for (size_t i = 0; i < e.size(); ++i) {
      if (std::isinf(e[i]) && a[i] == e[i]) continue;
      error += (a[i] - e[i]) * (a[i] - e[i]);
      size += e[i] * e[i];
    }
    EXPECT_LT(std::sqrt(error), 1e-2 * std::sqrt(size)) << what;
  }

  DeviceSet devices_ = DeviceSet::Open("cpu:1").value();
  Graph graph_{BuiltinOps()};
  const Scope scope_{graph_};
};

TEST_P(GpuTf32Test, Attention) {
  const Sizes& p = GetParam();
  const Output q = Waves({p.n, p.t, p.heads, p.width}, 0.37), k = Waves({p.n, p.s, p.kv_heads, p.width}, 0.71);
  const Output v = Waves(k.shape(), 1.3);
  AttentionOptions options{.causal = p.causal};
  if (p.masked) options.mask = Waves({p.t, p.s}, 0.9);
  const Output y = Attention(scope_, q, k, v, options);
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(scope_, {Mul(scope_, y, y)}, {q, k, v}));
  std::vector<NodeRun> trace;
  ASSERT_EQ(harness::Evaluate(gradients, {}, &trace).status(), absl::OkStatus());
  int compared = 0;
  for (const NodeRun& run : trace) {
    if (!absl::StartsWith(run.node->op().name, "Attention")) continue;
    ASSERT_OK_AND_ASSIGN(const auto outputs, harness::RunKernel(run, {}, &devices_.device(1)));
    for (size_t i = 0; i < outputs.size(); ++i) {
      ExpectNear(outputs[i], run.outputs[i], absl::StrCat("output ", i, " of ", run.node->op().name));
    }
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Widths, GpuTf32Test,
    testing::Values(Sizes{2, 33, 40, 2, 2, 5, false, true}, Sizes{1, 70, 131, 2, 1, 16, true, false},
                    Sizes{1, 65, 65, 2, 1, 64, true, false}, Sizes{1, 20, 35, 1, 1, 72, false, false},
                    Sizes{1, 40, 33, 2, 1, 128, true, true}, Sizes{1, 17, 34, 2, 1, 133, false, false},
                    Sizes{1, 31, 18, 1, 1, 160, true, false}),
    [](const auto& info) { return absl::StrCat("Width", info.param.width); });

}  // namespace
}  // namespace belfry::ops
