#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/product/matmul_ends_impl.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {
namespace {

Attrs GeluAttrs(DType dtype) { return {{"T", dtype}, {"approximate", true}}; }

// Both kernels, and for the second its inputs and output, which operands(at) gives as a pair.
template <class Operands>
Kernel Both(Kernel first, Kernel second, const Operands& operands) {
  return Kernel{[first = std::move(first.run), second = std::move(second.run), operands](const KernelContext& at) {
                  RETURN_IF_ERROR(first(at));
                  const auto [inputs, output] = operands(at);
                  KernelContext then = at;
                  void* const outputs[] = {output};
                  then.inputs = inputs.data();
                  then.outputs = outputs;
                  return second(then);
                },
                std::max(first.workspace_bytes, second.workspace_bytes)};
}

absl::StatusOr<std::vector<Shape>> BiasGradShape(const ShapeArgs& args) {
  if (args.attrs.Bool("transpose_b")) return absl::InvalidArgumentError("b must not be transposed");
  ASSIGN_OR_RETURN(const Shape product, ProductOfMatrices(args));
  return std::vector<Shape>{product, Shape({product[1]})};
}
absl::StatusOr<std::vector<Shape>> BiasGeluShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape x, ProductOfMatrices(args));
  RETURN_IF_ERROR(CheckBias(x, args.inputs[2]));
  return std::vector<Shape>{x, x};
}
absl::StatusOr<std::vector<Shape>> GeluGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape product, ProductOfMatrices(args));
  ASSIGN_OR_RETURN(const Shape dx, product.Merge(args.inputs[2]));
  return std::vector<Shape>{dx};
}

OpDef DefOf(const std::string& name, std::vector<ArgDef> inputs, std::vector<ArgDef> outputs, ShapeFunction shape) {
  return {.name = name,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .types = {{"T", kFloatTypes}},
          .attrs = {{"transpose_a", false}, {"transpose_b", false}},
          .shape = std::move(shape),
          .flops = MatMulFlops,
          .gradient = NoGradient(kByThePass)};
}

}  // namespace

absl::StatusOr<Kernel> ProductThenBiasGrad(const KernelSpec& spec, const KernelFactory& product,
                                           const KernelFactory& bias_grad) {
  ASSIGN_OR_RETURN(Kernel first,
                   product({spec.name, spec.attrs, spec.inputs, spec.outputs.subspan(0, 1), spec.device}));
  ASSIGN_OR_RETURN(Kernel second, bias_grad({spec.name, spec.attrs, spec.inputs.subspan(1, 1),
                                             spec.outputs.subspan(1, 1), spec.device}));
  return Both(std::move(first), std::move(second), [](const KernelContext& at) {
    return std::pair(std::array<const void*, 1>{at.inputs[1]}, at.outputs[1]);
  });
}

absl::StatusOr<Kernel> ProductThenGelu(const KernelSpec& spec, const KernelFactory& fused_product,
                                       const KernelFactory& gelu) {
  Attrs attrs = spec.attrs;
  attrs.Set("activation", std::string("none"));
  attrs.Set("alpha", 0.0);
  const absl::Span<const TensorSpec> x = spec.outputs.subspan(0, 1), y = spec.outputs.subspan(1, 1);
  ASSIGN_OR_RETURN(Kernel first, fused_product({spec.name, attrs, spec.inputs, x, spec.device}));
  ASSIGN_OR_RETURN(Kernel second, gelu({spec.name, GeluAttrs(x[0].dtype), x, y, spec.device}));
  return Both(std::move(first), std::move(second), [](const KernelContext& at) {
    return std::pair(std::array<const void*, 1>{at.outputs[0]}, at.outputs[1]);
  });
}

absl::StatusOr<Kernel> ProductThenGeluGrad(const KernelSpec& spec, const KernelFactory& product,
                                           const KernelFactory& gelu_grad) {
  ASSIGN_OR_RETURN(Kernel first,
                   product({spec.name, spec.attrs, spec.inputs.subspan(0, 2), spec.outputs, spec.device}));
  const TensorSpec inputs[] = {spec.outputs[0], spec.inputs[2]};
  ASSIGN_OR_RETURN(Kernel second,
                   gelu_grad({spec.name, GeluAttrs(inputs[0].dtype), inputs, spec.outputs, spec.device}));
  return Both(std::move(first), std::move(second), [](const KernelContext& at) {
    return std::pair(std::array<const void*, 2>{at.outputs[0], at.inputs[2]}, at.outputs[0]);
  });
}

void RegisterMatMulEnds(OpRegistry& registry) {
  OpDef bias_grad = DefOf("MatMulBiasGrad", {{"a"}, {"b"}}, {{"product"}, {"dbias"}}, BiasGradShape);
  bias_grad.kernels = Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    return [](const KernelSpec& spec) {
      return ProductThenBiasGrad(spec, &MakeMatMul<typename decltype(tag)::type>, &MakeBiasAddGrad);
    };
  });
  registry.Add(std::move(bias_grad));
  OpDef gelu = DefOf("MatMulBiasGelu", {{"a"}, {"b"}, {"bias"}}, {{"x"}, {"y"}}, BiasGeluShape);
  gelu.kernels = Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    return [](const KernelSpec& spec) {
      return ProductThenGelu(spec, &MakeFusedMatMul<typename decltype(tag)::type>, &MakeGelu);
    };
  });
  registry.Add(std::move(gelu));
  OpDef gelu_grad = DefOf("MatMulGeluGrad", {{"a"}, {"b"}, {"x"}}, {{"dx"}}, GeluGradShape);
  gelu_grad.kernels = Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) -> KernelFactory {
    return [](const KernelSpec& spec) {
      return ProductThenGeluGrad(spec, &MakeMatMul<typename decltype(tag)::type>, &MakeGeluGrad);
    };
  });
  registry.Add(std::move(gelu_grad));
}

}  // namespace belfry::ops
