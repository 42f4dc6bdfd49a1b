#include "tests/framework/compiler/fake_ops.h"

#include <string>
#include <utility>
#include <vector>

#include "framework/base/tensor.h"

namespace belfry {
namespace {

absl::StatusOr<Kernel> NoKernel(const KernelSpec&) { return absl::UnimplementedError("fake"); }

std::vector<KernelDef> OnCpu() {
  return {{"CPU", DType::kFloat32, NoKernel}, {"CPU", DType::kFloat64, NoKernel}, {"CPU", DType::kInt32, NoKernel}};
}
std::vector<KernelDef> OnGpu() { return {{"GPU", DType::kFloat32, NoKernel}}; }
std::vector<KernelDef> OnBoth() {
  std::vector<KernelDef> kernels = OnCpu();
  for (KernelDef& kernel : OnGpu()) kernels.push_back(std::move(kernel));
  return kernels;
}

absl::StatusOr<std::vector<Shape>> OneUnknown(const ShapeArgs&) { return std::vector<Shape>(1); }

OpDef Op(std::string name, std::vector<ArgDef> inputs, std::vector<KernelDef> kernels) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .outputs = {{.name = "y"}},
          .types = {{"T", kAnyType}},
          .shape = OneUnknown,
          .kernels = std::move(kernels)};
}

OpDef Special(std::string name, OpKind kind, std::vector<ArgDef> inputs) {
  OpDef op = Op(std::move(name), std::move(inputs), {});
  op.kind = kind;
  return op;
}

const ArgDef kX{.name = "x"}, kValue{.name = "value"}, kRef{.name = "ref", .ref = true};

}  // namespace

OpRegistry FakeOps() {
  OpRegistry ops;
  ops.Add({.name = "Const",
           .outputs = {{.name = "output", .type = "dtype"}},
           .types = {{"dtype", kAnyType}},
           .attrs = {{"value", Tensor(), true}},
           .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
             return std::vector<Shape>{args.attrs.Get<Tensor>("value").shape()};
           },
           .role = OpRole::kConst,
           .kind = OpKind::kConst});
  ops.Add(Special("Placeholder", OpKind::kPlaceholder, {}));
  ops.Add(WithRole(Special("Variable", OpKind::kVariable, {}), OpRole::kVariable));
  ops.Add(Special("Reshape", OpKind::kView, {kX}));
  ops.Add({.name = "NoOp", .role = OpRole::kNoOp, .kind = OpKind::kNoOp});
  ops.Add(Op("MatMul", {{.name = "a"}, {.name = "b"}}, OnBoth()));
  ops.Add(WithRole(Op("AddN", {{.name = "inputs", .list = true}}, OnBoth()), OpRole::kAddN));
  ops.Add(Op("Relu", {kX}, OnBoth()));
  ops.Add(Op("Shape", {{.name = "x", .shape_only = true}}, OnBoth()));
  ops.Add(Op("CpuOnly", {kX}, OnCpu()));
  ops.Add(Op("GpuOnly", {kX}, OnGpu()));
  ops.Add(Op("GpuSource", {}, OnGpu()));
  ops.Add(Op("Nowhere", {}, {}));
  ops.Add(WithRole(Op("Assign", {kRef, kValue}, OnBoth()), OpRole::kAssign));
  ops.Add(Op("CpuAssign", {kRef, kValue}, OnCpu()));
  ops.Add(Op("GpuAssign", {kRef, kValue}, OnGpu()));
  ops.Add(Op("Update2", {kRef, {.name = "slot", .ref = true}}, OnBoth()));
  return ops;
}

}  // namespace belfry
