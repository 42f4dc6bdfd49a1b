// Convolutions built of Conv2D and its gradient: transposed, one-dimensional and depthwise.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/window.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/convolution/engines_impl.h"
#include "ops/copy/extents_impl.h"
#include "ops/onednn/in_float32_impl.h"

namespace belfry::ops {
namespace {

// Inputs: a carrier of the result's shape, filter, x.
absl::StatusOr<std::vector<Shape>> TransposedShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, CarriedShape(args.inputs[0]));
  ASSIGN_OR_RETURN(const Shape x, Conv2DOutputShape(args.attrs, y, args.inputs[1]));
  if (!x.CompatibleWith(args.inputs[2])) {
    return absl::InvalidArgumentError(absl::StrCat("a convolution makes ", x.ToString(), " of ", y.ToString(),
                                                   ", so the transposed one cannot make that of ",
                                                   args.inputs[2].ToString()));
  }
  return std::vector<Shape>{y};
}

std::vector<Output> TransposedGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Attrs attrs = Conv2DAttrs(node.attrs());
  return {Output(), scope.Add("Conv2DBackpropFilter", {dy[0], node.input(1), node.input(2)}, attrs),
          scope.Add("Conv2D", {dy[0], node.input(1)}, attrs)};
}

bool TransposedTakesHalfPrecision(const KernelSpec& spec) {
  std::vector<TensorSpec> inputs(spec.inputs.begin(), spec.inputs.end());
  inputs[0] = spec.outputs[0];
  return TakesHalfPrecision(ConvolutionPass::kBackwardData)({spec.name, spec.attrs, inputs, spec.outputs, spec.device});
}

// The least extent of which a convolution makes `x`; for SAME, x times the stride.
Extent UnslidExtent(const Extent& x, const Padding& padding, int64_t before, int64_t after, int64_t window,
                    int64_t stride, int64_t dilation) {
  if (padding.kind == Padding::kSame) return x * stride;
  const int64_t pads = padding.kind == Padding::kExplicit ? before + after : 0;
  return x * stride + ((window - 1) * dilation + 1 - stride - pads);
}

// Whether x and filter have these ranks; fails the graph if not.
bool CheckRanks(const Scope& scope, absl::string_view op, Output x, Output filter, int rank) {
  if (!x.valid() || !filter.valid()) return scope.Add(op, {x, filter}).valid();  // an error
  if (x.shape().rank() == rank && filter.shape().rank() == rank) return true;
  scope.Fail(absl::InvalidArgumentError(absl::StrCat(op, " takes x and a filter of rank ", rank, ", not ",
                                                     x.shape().ToString(), " and ", filter.shape().ToString())));
  return false;
}

}  // namespace

Output Conv2DTranspose(OpScope scope, Output x, Output filter, const Conv2DOptions& options,
                       const ImageExtents& extents) {
  if (!CheckRanks(scope, "Conv2DTranspose", x, filter, 4)) return Output();
  const Shape& window = filter.shape();
  const Padding& padding = options.padding;
  const Extent height = extents.height.value_or(UnslidExtent(Extent::Of(x, 1), padding, padding.top, padding.bottom,
                                                             window[0], options.stride_h, options.dilation_h));
  const Extent width = extents.width.value_or(UnslidExtent(Extent::Of(x, 2), padding, padding.left, padding.right,
                                                           window[1], options.stride_w, options.dilation_w));
  const bool derived = padding.kind != Padding::kSame;
  if (derived &&
      ((!extents.height && window[0] == Shape::kUnknown) || (!extents.width && window[1] == Shape::kUnknown))) {
    scope.Fail(
        absl::InvalidArgumentError(absl::StrCat("without SAME padding, the height and width of the filter must be "
                                                "known, or those of the result given; the filter is ",
                                                window.ToString())));
    return Output();
  }
  const Output carrier = CarrierOf(scope, {Extent::Of(x, 0), height, width, Extent::Of(filter, 2) * options.groups});
  return scope.Add("Conv2DTranspose", {carrier, filter, x}, Conv2DAttrs(options));
}

Output Conv1D(OpScope scope, Output x, Output filter, const Conv1DOptions& options) {
  if (!CheckRanks(scope, "Conv1D", x, filter, 3)) return Output();
  const Conv2DOptions as_images{
      .stride_w = options.stride, .padding = options.padding, .dilation_w = options.dilation, .groups = options.groups};
  const Output y = Conv2D(scope, ExpandDims(scope, x, 1), ExpandDims(scope, filter, 0), as_images);
  return Squeeze(scope, y, {1});
}

Output DepthwiseConv2D(OpScope scope, Output x, Output filter, const Conv2DOptions& options) {
  if (!CheckRanks(scope, "DepthwiseConv2D", x, filter, 4)) return Output();
  const int64_t channels = x.shape()[3] == Shape::kUnknown ? filter.shape()[2] : x.shape()[3];
  if (channels == Shape::kUnknown || options.groups != 1) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("DepthwiseConv2D needs a known number of channels, and makes the groups itself; x is ",
                     x.shape().ToString(), ", and groups ", options.groups)));
    return Output();
  }
  Conv2DOptions grouped = options;
  grouped.groups = channels;
  const Extent r = Extent::Of(filter, 0), s = Extent::Of(filter, 1);
  return Conv2D(scope, x, Reshape(scope, filter, {r, s, 1, Extent::Of(filter, 3) * channels}), grouped);
}

void RegisterConv2DTranspose(OpRegistry& registry) {
  registry.Add(WithHalfPrecision(
      {.name = "Conv2DTranspose",
       .inputs = {{.name = "extents", .type = kCarrierType, .shape_only = true}, {"filter"}, {"x"}},
       .outputs = {{"y"}},
       .types = {{"T", kFloatTypes}},
       .attrs = Conv2DAttrDefs(),
       .shape = TransposedShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
       .gradient = TransposedGradient,
       .kernels = Kernels<float, double, BFloat16>("CPU",
                                                   [](auto) {
                                                     return [](const KernelSpec& spec) {
                                                       return MakeConv2DTranspose(spec, &MakeConv2DBackpropInput);
                                                     };
                                                   })},
      TransposedTakesHalfPrecision));
}

}  // namespace belfry::ops
