// CheckNumerics on a GPU: with one and with many threads, in every dtype, also in place.
#include <map>

#include "framework/base/half.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/special_values.h"

namespace belfry::ops {
namespace {

class GpuCheckNumerics : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenTestGpus(1)); }
  // n elements that are 1, except for `others`.
  template <class T>
  static Tensor Ones(DType dtype, int64_t n, const std::map<int64_t, float>& others) {
    Tensor x(dtype, {n});
    for (int64_t i = 0; i < n; ++i) x.data<T>()[i] = static_cast<T>(1.0f);
    for (const auto& [i, value] : others) x.data<T>()[i] = static_cast<T>(value);
    return x;
  }
  static Tensor With(int64_t n, const std::map<int64_t, float>& others) {
    switch (GetParam()) {
      case DType::kFloat64: return Ones<double>(GetParam(), n, others);
      case DType::kFloat16: return Ones<Half>(GetParam(), n, others);
      case DType::kBFloat16: return Ones<BFloat16>(GetParam(), n, others);
      default: return Ones<float>(GetParam(), n, others);
    }
  }
  std::string Message(const Tensor& x, bool in_place = false) const {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output y = CheckNumerics(scope, Const(scope, With(x.elements(), {})), "logits");
    std::vector<harness::NodeRun> trace;
    const auto good = harness::Evaluate({y}, {}, &trace);
    if (!good.ok()) return std::string(good.status().message());
    harness::NodeRun& run = trace.back();
    run.inputs[0] = x;
    const harness::InPlace how = in_place ? harness::InPlace{0, 0} : harness::InPlace{};
    return std::string(harness::RunKernel(run, how, &devices_.device(1)).status().message());
  }

  DeviceSet devices_;
};

TEST_P(GpuCheckNumerics, CountsWhatIsNoNumber) {
  const std::string what = "logits: the tensor of 'CheckNumerics' had ";
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(Message(With(5, {{4, -0.0f}}), in_place), "");
    EXPECT_EQ(Message(With(5, {{0, kNaN}, {2, kInfinity}, {4, -kInfinity}}), in_place),
              what + "1 NaN and 2 infinite values among 5 elements");
    EXPECT_EQ(Message(With(5, {{4, kInfinity}}), in_place), what + "0 NaN and 1 infinite values among 5 elements");
  }
}

TEST_P(GpuCheckNumerics, CountsInAllParts) {
  const int64_t n = 50'001;
  EXPECT_EQ(Message(With(n, {})), "");
  std::map<int64_t, float> others = {{0, kNaN}, {n - 1, kNaN}};
  for (int64_t i = 1000; i < n - 1; i += 1000) others[i] = kInfinity;
  EXPECT_EQ(Message(With(n, others)),
            "logits: the tensor of 'CheckNumerics' had 2 NaN and 49 infinite values among 50001 elements");
  for (const int64_t i : {int64_t{0}, n / 2, n - 1}) {
    EXPECT_EQ(Message(With(n, {{i, kNaN}}), true),
              "logits: the tensor of 'CheckNumerics' had 1 NaN and 0 infinite values among 50001 elements");
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, GpuCheckNumerics,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16),
                         [](const testing::TestParamInfo<DType>& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace belfry::ops
