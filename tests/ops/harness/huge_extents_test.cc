// Extents from 2^31 on, at which libraries and 32-bit indices end.
#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/device/device_set.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/op_case_fixture.h"

namespace belfry::harness {
namespace {

class HugeExtentsTest : public OpCaseTest {
 protected:
  // Plans the op and its gradient for inputs of which `axis`, left open in the graph, has this extent: in all of them,
  // or in the first only. A plan takes no memory for values, and is as good as an error.
  void Plan(DType dtype, int axis, int64_t extent, bool first_only) const {
    SCOPED_TRACE(absl::StrCat(DTypeName(dtype), ", axis ", axis, " of ", extent));
    ASSERT_OK_AND_ASSIGN(const Instance instance, MakeInstance(op_case(), dtype, own_shapes(), axis));
    std::vector<Output> fetches = instance.outs;
    if (op_case().gradient && IsFloating(dtype)) {
      std::vector<Output> ys;
      std::copy_if(fetches.begin(), fetches.end(), std::back_inserter(ys),
                   [](const Output& y) { return IsFloating(y.dtype()); });
      ASSERT_OK_AND_ASSIGN(const auto dx, Gradients(instance.scope(), ys, instance.Differentiable(op_case())));
      std::copy_if(dx.begin(), dx.end(), std::back_inserter(fetches), [](const Output& d) { return d.valid(); });
    }
    std::vector<FeedSpec> feeds;
    for (size_t i = 0; i < instance.ins.size(); ++i) {
      if (op_case().inputs[i].variable) continue;
      Shape shape = own_shapes()[i];
      if (axis < shape.rank() && (i == 0 || !first_only)) shape.set_dim(axis, extent);
      feeds.push_back({instance.ins[i], shape});
    }
    ASSERT_OK_AND_ASSIGN(const DeviceSet devices, DeviceSet::Open("cpu:1"));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(*instance.graph, devices));
    const absl::StatusOr<Session::Explanation> plan = session->Explain(feeds, fetches);
    if (!plan.ok()) {
      EXPECT_NE(plan.status().message(), "");
    }
  }
};

TEST_P(HugeExtentsTest, GiveAPlanOrAnError) {
  for (const int64_t extent : {int64_t{1} << 31, int64_t{1} << 32, (int64_t{1} << 32) + 1}) {
    for (const int axis : op_case().unknown_axes) {
      for (const DType dtype : op_case().dtypes) {
        for (const bool first_only : {false, true}) ASSERT_NO_FATAL_FAILURE(Plan(dtype, axis, extent, first_only));
      }
    }
  }
}

std::vector<OpCase> OpenCases() {
  std::vector<OpCase> cases = AllCases();
  cases.erase(std::remove_if(cases.begin(), cases.end(), [](const OpCase& c) { return c.unknown_axes.empty(); }),
              cases.end());
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, HugeExtentsTest, testing::ValuesIn(OpenCases()),
                         [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; });

}  // namespace
}  // namespace belfry::harness
