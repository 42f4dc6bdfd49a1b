// Checks that every registered op has a shape rule, a CPU kernel, a case, and a gradient or a statement that it has
// none.
#include <set>
#include <string>

#include "framework/graph/gradients.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/instance.h"

namespace belfry::harness {
namespace {

TEST(Registry, EveryOpIsWhole) {
  for (const auto& [name, op] : BuiltinOps().ops()) {
    SCOPED_TRACE(name);
    if (op.kind != OpKind::kNoOp) {
      EXPECT_TRUE(op.shape != nullptr);
    }
    EXPECT_NE(op.gradient != nullptr, op.not_differentiable) << "a gradient, or not_differentiable";
    if (op.kind != OpKind::kKernel) continue;
    EXPECT_FALSE(op.KernelsFor("CPU").empty());
    ASSERT_FALSE(op.types.empty());
    for (const DType dtype : op.types[0].allowed) {
      EXPECT_NE(op.FindKernel("CPU", dtype), nullptr)
          << "takes " << DTypeName(dtype) << " and has no CPU kernel for it";
    }
    for (const auto& [in, out] : op.in_place) {
      EXPECT_LT(in, static_cast<int>(op.inputs.size()));
      EXPECT_LT(out, static_cast<int>(op.outputs.size()));
    }
  }
}

TEST(Registry, EveryOpHasACase) {
  std::set<std::string> covered;
  for (const OpCase& op_case : AllCases()) {
    const DType dtype = op_case.dtypes[0];
    const auto instance = MakeInstance(op_case, dtype, ShapeSets(op_case)[0]);
    ASSERT_TRUE(instance.ok()) << op_case.name << ": " << instance.status();
    if (op_case.gradient && IsFloating(dtype)) {
      std::vector<Output> ys;
      for (const Output& y : instance->outs) {
        if (IsFloating(y.dtype())) ys.push_back(y);
      }
      EXPECT_TRUE(Gradients(instance->scope(), ys, instance->Differentiable(op_case)).ok()) << op_case.name;
    }
    for (int id = 0; id < instance->graph->size(); ++id) covered.insert(instance->graph->node(id).op().name);
  }
  std::string missing;
  for (const auto& [name, op] : BuiltinOps().ops()) {
    if (op.kind == OpKind::kKernel && covered.count(name) == 0) missing += " " + name;
  }
  EXPECT_EQ(missing, "") << "add cases for these ops to tests/ops/cases/";
}

}  // namespace
}  // namespace belfry::harness
