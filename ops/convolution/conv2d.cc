#include <utility>

#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/window.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/convolution/engines_impl.h"
#include "ops/onednn/in_float32_impl.h"

namespace belfry::ops {

namespace {

template <ConvolutionPass pass>
absl::StatusOr<Kernel> MakePass(const KernelSpec& spec) {
  if (spec.outputs[0].shape.elements() == 0) return NothingToDo();
  const ConvolutionGeometry shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
  ASSIGN_OR_RETURN(std::optional<Kernel> kernel, MakeByEngine(pass, {spec, shape}));
  return *std::move(kernel);  // of the loops, if of no other engine
}

}  // namespace

absl::StatusOr<Kernel> MakeConv2D(const KernelSpec& spec) { return MakePass<ConvolutionPass::kForward>(spec); }
absl::StatusOr<Kernel> MakeConv2DBackpropInput(const KernelSpec& spec) {
  return MakePass<ConvolutionPass::kBackwardData>(spec);
}
absl::StatusOr<Kernel> MakeConv2DBackpropFilter(const KernelSpec& spec) {
  return MakePass<ConvolutionPass::kBackwardWeights>(spec);
}

namespace {

absl::StatusOr<std::vector<Shape>> ForwardShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  return std::vector<Shape>{y};
}

// Shape rule of a gradient, which has the shape of input `like`.
ShapeFunction GradientShape(int like) {
  return [like](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
    ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
    RETURN_IF_ERROR(y.Merge(args.inputs[2]).status());
    return std::vector<Shape>{args.inputs[like]};
  };
}

std::vector<Output> Conv2DGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output x = node.input(0), filter = node.input(1);
  const Attrs attrs = Conv2DAttrs(node.attrs());
  return {scope.Add("Conv2DBackpropInput", {x, filter, dy[0]}, attrs),
          scope.Add("Conv2DBackpropFilter", {x, filter, dy[0]}, attrs)};
}

// Convolution is bilinear in images and filter, so the gradients of its gradients are again these three ops.
std::vector<Output> GradientOfBackpropInput(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  const Attrs attrs = Conv2DAttrs(node.attrs());
  return {Output(), scope.Add("Conv2DBackpropFilter", {ddx[0], node.input(1), node.input(2)}, attrs),
          scope.Add("Conv2D", {ddx[0], node.input(1)}, attrs)};
}
std::vector<Output> GradientOfBackpropFilter(const Scope& scope, const Node& node, absl::Span<const Output> ddfilter) {
  const Attrs attrs = Conv2DAttrs(node.attrs());
  return {scope.Add("Conv2DBackpropInput", {node.input(0), ddfilter[0], node.input(2)}, attrs), Output(),
          scope.Add("Conv2D", {node.input(0), ddfilter[0]}, attrs)};
}

}  // namespace

Output Conv2D(OpScope scope, Output x, Output filter, const Conv2DOptions& options) {
  return scope.Add("Conv2D", {x, filter}, Conv2DAttrs(options));
}

void RegisterConv2D(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "Conv2D",
       .inputs = {{"x"}, {"filter"}},
       .outputs = {{"y"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = ForwardShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.outputs[0].shape, of.inputs[1].shape); },
       .gradient = Conv2DGradient,
       .kernels = Kernels<float, double, BFloat16>("CPU", [](auto) { return &MakeConv2D; })},
      TakesHalfPrecision(ConvolutionPass::kForward)));
}

void RegisterConv2DGradients(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "Conv2DBackpropInput",
       .inputs = {{.name = "x", .shape_only = true}, {"filter"}, {"dy"}},
       .outputs = {{"dx"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = GradientShape(0),
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
       .gradient = GradientOfBackpropInput,
       .kernels = Kernels<float, double, BFloat16>("CPU", [](auto) { return &MakeConv2DBackpropInput; })},
      TakesHalfPrecision(ConvolutionPass::kBackwardData)));
  registry.Add(WithHalfPrecision(
      {.name = "Conv2DBackpropFilter",
       .inputs = {{"x"}, {.name = "filter", .shape_only = true}, {"dy"}},
       .outputs = {{"dfilter"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = GradientShape(1),
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
       .gradient = GradientOfBackpropFilter,
       .kernels = Kernels<float, double, BFloat16>("CPU", [](auto) { return &MakeConv2DBackpropFilter; })},
      TakesHalfPrecision(ConvolutionPass::kBackwardWeights)));
}

}  // namespace belfry::ops
