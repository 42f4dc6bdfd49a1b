// Checks that every registered op has a shape rule, a CPU kernel, a case, and a gradient or a statement that it has
// none.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>

#include "absl/algorithm/container.h"
#include "framework/graph/gradients.h"
#include "ops/builtin_ops.h"
#include "tests/framework/base/same_bits.h"
#include "tests/main/testing.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/instance.h"

namespace belfry::harness {
namespace {

std::vector<Output> FloatsOf(const Outs& outs) {
  std::vector<Output> floats;
  absl::c_copy_if(outs, std::back_inserter(floats), [](const Output& y) { return IsFloating(y.dtype()); });
  return floats;
}

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
      EXPECT_TRUE(Gradients(instance->scope(), FloatsOf(instance->outs), instance->Differentiable(op_case)).ok())
          << op_case.name;
    }
    for (int id = 0; id < instance->graph->size(); ++id) covered.insert(instance->graph->node(id).op().name);
  }
  std::string missing;
  for (const auto& [name, op] : BuiltinOps().ops()) {
    if (op.kind == OpKind::kKernel && covered.count(name) == 0) missing += " " + name;
  }
  EXPECT_EQ(missing, "") << "add cases for these ops to tests/ops/cases/";
}

// True if the op may read floating-point numbers.
bool ReadsFloats(const OpDef& op) {
  const auto floats = [&](const ArgDef& arg) {
    for (const TypeVar& type : op.types) {
      if (type.name == arg.type) return absl::c_any_of(type.allowed, IsFloating);
    }
    return absl::c_any_of(kAllDTypes, [&](DType dtype) { return IsFloating(dtype) && DTypeName(dtype) == arg.type; });
  };
  return absl::c_any_of(op.inputs, [&](const ArgDef& arg) { return !arg.shape_only && floats(arg); });
}

// Moves some of the floating-point numbers that a node reads by a little, one by one, and expects the same
// floating-point results. Integers stay: there are the steps. Returns how many it moved.
int ExpectConstant(const NodeRun& run) {
  const OpDef& op = run.node->op();
  const std::vector<Tensor> expected = ValueOf(RunKernel(run));
  int moves = 0;
  for (size_t in = 0; in < run.inputs.size(); ++in) {
    const Tensor& x = run.inputs[in];
    if (!IsFloating(x.dtype()) || op.input_arg(static_cast<int>(in)).shape_only) continue;
    for (int64_t i = 0; i < x.elements(); i += std::max<int64_t>(1, x.elements() / 8)) {
      Array values = ToArray(x);
      if (values[i] == std::round(values[i])) continue;
      values[i] += 8 * Rounding(x.dtype()) * std::max(1.0, std::abs(values[i]));
      NodeRun moved = run;
      moved.inputs[in] = MakeTensor(x.dtype(), values);
      const std::vector<Tensor> actual = ValueOf(RunKernel(moved));
      ++moves;
      for (size_t out = 0; out < actual.size(); ++out) {
        EXPECT_TRUE(!IsFloating(actual[out].dtype()) || SameBits(actual[out], expected[out]))
            << op.name << ": output " << out << " depends on element " << i << " of input " << in
            << ", so it needs a gradient rule, or NoGradient";
      }
    }
  }
  return moves;
}

// Gradients() takes the derivatives of such ops for 0 without a word.
TEST(Registry, OpsThatAreNotDifferentiableArePiecewiseConstant) {
  std::set<std::string> tried;
  const auto wanted = [&](const OpDef& op) {
    return op.kind == OpKind::kKernel && op.not_differentiable && ReadsFloats(op) && !tried.contains(op.name);
  };
  for (const OpCase& op_case : AllCases()) {
    const DType dtype = op_case.dtypes[0];
    ASSERT_OK_AND_ASSIGN(const Instance instance, MakeInstance(op_case, dtype, ShapeSets(op_case)[0]));
    std::vector<Output> fetches = instance.outs;
    if (op_case.gradient && IsFloating(dtype)) {
      ASSERT_OK_AND_ASSIGN(const auto dx,
                           Gradients(instance.scope(), FloatsOf(instance.outs), instance.Differentiable(op_case)));
      absl::c_copy_if(dx, std::back_inserter(fetches), [](const Output& d) { return d.valid(); });
    }
    bool any = false;
    for (int id = 0; id < instance.graph->size(); ++id) any = any || wanted(instance.graph->node(id).op());
    if (!any) continue;
    std::vector<NodeRun> trace;
    ASSERT_EQ(Evaluate(fetches, instance.feeds, &trace).status(), absl::OkStatus()) << op_case.name;
    for (const NodeRun& run : trace) {
      if (wanted(run.node->op()) && ExpectConstant(run) > 0) tried.insert(run.node->op().name);
    }
  }
  for (const auto& [name, op] : BuiltinOps().ops()) EXPECT_FALSE(wanted(op)) << name << " is in no case";
}

}  // namespace
}  // namespace belfry::harness
