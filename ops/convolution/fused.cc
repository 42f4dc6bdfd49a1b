#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/add_and_mask_impl.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/convolution/engines_impl.h"
#include "ops/onednn/in_float32_impl.h"

namespace belfry::ops {
namespace {

// The kernel of an engine that computes all of the node; nothing if none does.
template <ConvolutionPass pass>
MadeKernel MakeWhole(const KernelSpec& spec, const Epilogue& epilogue = {}) {
  const ConvolutionGeometry shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
  return MakeByEngine(pass, {spec, shape, epilogue}, /*fused=*/true);
}

template <class T>
absl::StatusOr<Kernel> MakeFusedConv2D(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  ASSIGN_OR_RETURN(std::optional<Kernel> whole, MakeWhole<ConvolutionPass::kForward>(spec, epilogue));
  if (whole.has_value()) return *std::move(whole);
  ASSIGN_OR_RETURN(Kernel product, MakeConv2D(WithoutBias(spec)));
  return ThenBiasAndActivation<T>(std::move(product), spec, epilogue);
}

// Inputs x, filter (its shape), dy; outputs dfilter, dbias.
absl::StatusOr<Kernel> MakeBackpropFilterBias(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(std::optional<Kernel> whole, MakeWhole<ConvolutionPass::kBackwardWeights>(spec));
  if (whole.has_value()) return *std::move(whole);
  return MakeFilterThenBias(spec, &MakeConv2DBackpropFilter, &MakeBiasAddGrad);
}

// Inputs x (its shape), filter, dy, the output of a ReLU like x and, if one is added, an addend.
template <class T>
absl::StatusOr<Kernel> MakeBackpropInputReluGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(std::optional<Kernel> whole, MakeWhole<ConvolutionPass::kBackwardData>(spec));
  if (whole.has_value()) return *std::move(whole);
  ASSIGN_OR_RETURN(Kernel kernel, MakeConv2DBackpropInput(
                                      {spec.name, spec.attrs, spec.inputs.subspan(0, 3), spec.outputs, spec.device}));
  kernel.run = [run = std::move(kernel.run), n = spec.outputs[0].shape.elements(),
                add = spec.inputs.size() > 4](const KernelContext& context) {
    RETURN_IF_ERROR(run(context));
    T* const dx = context.output<T>(0);
    AddAndMask(n, dx, add ? context.input<T>(4) : nullptr, context.input<T>(3), dx);
    return absl::OkStatus();
  };
  kernel.in_place = false;
  return kernel;
}

absl::StatusOr<std::vector<Shape>> BackpropInputReluGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(y.Merge(args.inputs[2]).status());
  for (const Shape& like : args.inputs.subspan(3)) RETURN_IF_ERROR(args.inputs[0].Merge(like).status());
  return std::vector<Shape>{args.inputs[0]};
}

absl::StatusOr<std::vector<Shape>> FusedConv2DShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(EpilogueOf(args.attrs).status());
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(CheckBias(y, args.inputs[2]));
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> FilterBiasShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(y.Merge(args.inputs[2]).status());
  return std::vector<Shape>{args.inputs[1], Shape({FilterShape(args.attrs, args.inputs[1])[3]})};
}

}  // namespace

void RegisterFusedConv2D(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "FusedConv2D",
       .inputs = {{"x"}, {"filter"}, {"bias"}},
       .outputs = {{"y"}},
       .types = {{"T", kFloatTypes}},
       .attrs = WithEpilogueAttrs(Conv2DAttrDefs()),
       .shape = FusedConv2DShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.outputs[0].shape, of.inputs[1].shape); },
       .gradient = NoGradient(kByThePass),
       .kernels = Kernels<float, double, BFloat16>(
           "CPU", [](auto tag) { return &MakeFusedConv2D<typename decltype(tag)::type>; })},
      TakesHalfPrecision(ConvolutionPass::kForward)));
}

void RegisterFusedConv2DGradients(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "Conv2DBackpropFilterBias",
       .inputs = {{"x"}, {.name = "filter", .shape_only = true}, {"dy"}},
       .outputs = {{"dfilter"}, {"dbias"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = FilterBiasShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
       .gradient = NoGradient(kByThePass),
       .kernels = Kernels<float, double, BFloat16>("CPU", [](auto) { return &MakeBackpropFilterBias; })},
      TakesHalfPrecision(ConvolutionPass::kBackwardWeights)));
  OpDef masked = {.name = "Conv2DBackpropInputReluGrad",
                  .inputs = {{.name = "x", .shape_only = true}, {"filter"}, {"dy"}, {"relu"}},
                  .outputs = {{"dx"}},
                  .types = {{"T", kFloatTypes}},
                  .attrs = Conv2DAttrDefs(),
                  .shape = BackpropInputReluGradShape,
                  .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
                  .gradient = NoGradient(kByThePass),
                  .in_place = {{3, 0}},
                  .kernels = Kernels<float, double, BFloat16>(
                      "CPU", [](auto tag) { return &MakeBackpropInputReluGrad<typename decltype(tag)::type>; })};
  registry.Add(WithHalfPrecision(masked, TakesHalfPrecision(ConvolutionPass::kBackwardData)));
  masked.name = "Conv2DBackpropInputAddReluGrad";
  masked.inputs.push_back({"addend"});
  masked.in_place = {{4, 0}, {3, 0}};
  registry.Add(WithHalfPrecision(masked, TakesHalfPrecision(ConvolutionPass::kBackwardData)));
}

}  // namespace belfry::ops
