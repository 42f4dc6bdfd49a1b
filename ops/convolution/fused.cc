#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/add_and_mask_impl.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/convolution/algorithms_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/conv2d_winograd_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/onednn/in_float32_impl.h"
#include "ops/onednn/primitive_kernel_impl.h"

namespace belfry::ops {
namespace {

bool FusedByWinograd(const KernelSpec& spec) {
  const absl::StatusOr<Epilogue> epilogue = EpilogueOf(spec.attrs);
  return epilogue.ok() && IsReluAtMost(*epilogue) && ForwardByWinograd()(spec);
}

template <class T>
absl::StatusOr<Kernel> MakeFusedConv2D(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    ASSIGN_OR_RETURN(std::optional<Kernel> own, OwnForward(spec, shape, epilogue));
    if (own.has_value()) return *std::move(own);
    const bool whole = onednn::Applies(epilogue);
    const onednn::Conv2DForwardOptions options{.bias = true, .post_ops = whole ? epilogue : Epilogue()};
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(spec, onednn::Conv2DForward(shape, options), {0, 1, 2}, {0}));
    if (kernel.has_value()) return whole ? *std::move(kernel) : ThenActivation<T>(*std::move(kernel), spec, epilogue);
  }
  ASSIGN_OR_RETURN(Kernel product, MakeConv2D<T>(WithoutBias(spec)));
  return ThenBiasAndActivation<T>(std::move(product), spec, epilogue);
}

// Inputs x, filter (its shape), dy; outputs dfilter, dbias.
template <class T>
absl::StatusOr<Kernel> MakeBackpropFilterBias(const KernelSpec& spec) {
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    ASSIGN_OR_RETURN(std::optional<Kernel> own, OwnBackpropFilter(spec, shape));
    if (own.has_value()) return *std::move(own);
    ASSIGN_OR_RETURN(
        std::optional<Kernel> kernel,
        PrimitiveKernel(spec, onednn::Conv2DBackwardWeights(shape, {.bias = true, .gradient_dtype = kDTypeOf<T>}),
                        {0, 2}, {0, 1}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  return MakeFilterThenBias(spec, &MakeConv2DBackpropFilter<T>, &MakeBiasAddGrad);
}

// Inputs x (its shape), filter, dy, the output of a ReLU like x and, if one is added, an addend.
template <class T>
absl::StatusOr<Kernel> MakeBackpropInputReluGrad(const KernelSpec& spec) {
  if (HasElements(spec)) {
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    if (std::optional<Kernel> fast = WinogradBackpropInput(spec, shape)) return *std::move(fast);
  }
  ASSIGN_OR_RETURN(Kernel kernel, MakeConv2DBackpropInput<T>(
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
  registry.Add(WithSixteenBits(
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
      FusedByWinograd));
}

void RegisterFusedConv2DGradients(OpRegistry& registry) {
  registry.Add(WithSixteenBits(
      {.name = "Conv2DBackpropFilterBias",
       .inputs = {{"x"}, {.name = "filter", .shape_only = true}, {"dy"}},
       .outputs = {{"dfilter"}, {"dbias"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = FilterBiasShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
       .gradient = NoGradient(kByThePass),
       .kernels = Kernels<float, double, BFloat16>(
           "CPU", [](auto tag) { return &MakeBackpropFilterBias<typename decltype(tag)::type>; })},
      BackpropFilterByWinograd()));
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
  registry.Add(WithSixteenBits(masked, BackpropInputByWinograd()));
  masked.name = "Conv2DBackpropInputAddReluGrad";
  masked.inputs.push_back({"addend"});
  masked.in_place = {{4, 0}, {3, 0}};
  registry.Add(WithSixteenBits(masked, BackpropInputByWinograd()));
}

}  // namespace belfry::ops
