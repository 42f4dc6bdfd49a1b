#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/common/compute_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/only_if.h"
#include "ops/state.h"
#include "ops/state/state_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> VariableShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.attrs.Get<Shape>("shape")};
}

absl::StatusOr<std::vector<Shape>> AssignShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckOnlyIf(args, 2));
  if (!args.inputs[0].CompatibleWith(args.inputs[1])) {
    return absl::InvalidArgumentError(absl::StrCat("the variable has shape ", args.inputs[0].ToString(),
                                                   ", but the value has ", args.inputs[1].ToString()));
  }
  return std::vector<Shape>{args.inputs[0]};
}

absl::StatusOr<std::vector<Shape>> ReadShape(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

// Copies input `from` over output 0: the value for Assign, the variable for ReadVariable.
template <int from>
absl::StatusOr<Kernel> MakeCopy(const KernelSpec& spec) {
  const size_t bytes = spec.outputs[0].bytes();
  return Kernel{[bytes](const KernelContext& context) {
    if (bytes > 0) std::memcpy(context.outputs[0], context.inputs[from], bytes);
    return absl::OkStatus();
  }};
}

// Computed like Add and Sub, so integers wrap around.
template <class T, template <class> class F>
absl::StatusOr<Kernel> MakeAccumulate(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].shape.elements();
  return Kernel{[n](const KernelContext& context) {
    T* variable = context.ref<T>(0);
    const T* value = context.input<T>(1);
    ParallelFor(n, 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        variable[i] = static_cast<T>(F<Compute<T>>()(Compute<T>(variable[i]), Compute<T>(value[i])));
      }
    });
    return absl::OkStatus();
  }};
}

std::vector<KernelDef> CopyKernels(KernelFactory make) {
  std::vector<KernelDef> kernels;
  for (DType dtype : kAllDTypes) kernels.push_back({"CPU", dtype, make});
  return kernels;
}

template <template <class> class F>
std::vector<KernelDef> AccumulateKernels() {
  return Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
      "CPU", [](auto tag) { return &MakeAccumulate<typename decltype(tag)::type, F>; });
}

constexpr DType kCountable[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                DType::kBFloat16, DType::kInt32,   DType::kInt64};

OpDef UpdateOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels) {
  return {.name = std::string(name),
          .inputs = {{.name = "variable", .ref = true}, {.name = "value"}, OnlyIfArg()},
          .outputs = {{.name = "updated", .ref = true}},
          .types = {{"T", types}},
          .shape = AssignShape,
          .gradient = NoGradient(kOfUpdates),
          .stateful = true,
          .kernels = Conditional(std::move(kernels), 2)};
}

OpDef Accumulation(absl::string_view name, std::vector<KernelDef> kernels) {
  OpDef op = UpdateOp(name, kCountable, std::move(kernels));
  op.elementwise = true;
  return op;
}

}  // namespace

Output Assign(OpScope scope, const Variable& variable, Output value) { return scope.Add("Assign", {variable, value}); }
Output AssignAdd(OpScope scope, const Variable& variable, Output value) {
  return scope.Add("AssignAdd", {variable, value});
}
Output AssignSub(OpScope scope, const Variable& variable, Output value) {
  return scope.Add("AssignSub", {variable, value});
}
Output ReadVariable(OpScope scope, const Variable& variable) { return scope.Add("ReadVariable", {variable}); }

const Node* Group(OpScope scope, absl::Span<const Output> outputs) {
  std::vector<const Node*> nodes;
  for (const Output& output : outputs) nodes.push_back(output.node);
  return Group(scope, nodes);
}

const Node* Group(OpScope scope, absl::Span<const Node* const> nodes) {
  return scope.ControlDependencies(nodes).AddNode("NoOp", {});
}

void RegisterStateOps(OpRegistry& registry) {
  registry.Add({.name = "Variable",
                .outputs = {{.name = "value"}},
                .types = {{"T", kAnyType}},
                .attrs = {{"shape", Shape(), true}, {"name", std::string(), true}},
                .shape = VariableShape,
                .not_differentiable = true,
                .role = OpRole::kVariable,
                .stateful = true,
                .kind = OpKind::kVariable});
  OpDef assign = UpdateOp("Assign", kAnyType, CopyKernels(&MakeCopy<1>));
  assign.role = OpRole::kAssign;
  assign.inputs[0].overwrites = true;
  registry.Add(assign);
  registry.Add(Accumulation("AssignAdd", AccumulateKernels<functor::Add>()));
  registry.Add(Accumulation("AssignSub", AccumulateKernels<functor::Sub>()));
  registry.Add(
      {.name = "ReadVariable",
       .inputs = {{.name = "variable"}},
       .outputs = {{.name = "value"}},
       .types = {{"T", kAnyType}},
       .shape = ReadShape,
       .gradient = [](const Scope&, const Node&, absl::Span<const Output> dy) { return std::vector<Output>{dy[0]}; },
       .stateful = true,
       .kernels = CopyKernels(&MakeCopy<0>)});
  registry.Add(
      {.name = "NoOp", .not_differentiable = true, .role = OpRole::kNoOp, .stateful = true, .kind = OpKind::kNoOp});
}

}  // namespace belfry::ops
