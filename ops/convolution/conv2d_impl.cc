#include "ops/convolution/conv2d_impl.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/common/window.h"

namespace belfry::ops {

std::vector<AttrDef> Conv2DAttrDefs() {
  std::vector<AttrDef> attrs = WindowAttrDefs();
  attrs.push_back({"dilations", std::vector<int64_t>{1, 1, 1, 1}});
  attrs.push_back({"groups", int64_t{1}});
  attrs.push_back({std::string(kFilterKrsc), false});
  return attrs;
}

bool HasKrscFilter(const Attrs& attrs) {
  const AttrValue* const value = attrs.Find(kFilterKrsc);
  return value != nullptr && std::get<bool>(*value);
}

Shape FilterShape(const Attrs& attrs, const Shape& filter) {
  if (!HasKrscFilter(attrs) || filter.rank() != 4) return filter;
  return Shape({filter[1], filter[2], filter[3], filter[0]});
}

Attrs Conv2DAttrs(const Conv2DOptions& options) {
  Attrs attrs;
  SetWindowAttrs(options.padding, options.stride_h, options.stride_w, attrs);
  attrs.Set("dilations", std::vector<int64_t>{1, options.dilation_h, options.dilation_w, 1});
  attrs.Set("groups", options.groups);
  return attrs;
}

Attrs Conv2DAttrs(const Attrs& attrs) {
  Attrs copy;
  for (const AttrDef& def : Conv2DAttrDefs()) copy.Set(def.name, *attrs.Find(def.name));
  return copy;
}

absl::StatusOr<Shape> Conv2DOutputShape(const Attrs& attrs, const Shape& x, const Shape& filter) {
  const Shape rsck = FilterShape(attrs, filter);
  if (rsck.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("a filter must be [R, S, C / groups, K], not ", rsck.ToString()));
  }
  const std::vector<int64_t>& dilations = attrs.Ints("dilations");
  if (dilations.size() != 4 || dilations[0] != 1 || dilations[3] != 1) {
    return absl::InvalidArgumentError("dilations must be [1, h, w, 1]");
  }
  ASSIGN_OR_RETURN(const Window window, MakeWindow(attrs, x, rsck[0], rsck[1], dilations[1], dilations[2]));
  const int64_t groups = attrs.Int("groups"), c = x[3], c_group = rsck[2], k = rsck[3];
  if (groups < 1 || (k != Shape::kUnknown && k % groups != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("groups must divide the ", k, " output channels, but is ", groups));
  }
  if (c != Shape::kUnknown && c_group != Shape::kUnknown && c != c_group * groups) {
    return absl::InvalidArgumentError(absl::StrCat("images ", x.ToString(), " have ", c, " channels, but the filter ",
                                                   rsck.ToString(), " takes ", c_group, " in each of ", groups,
                                                   groups == 1 ? " group" : " groups"));
  }
  return Shape({x[0], window.h.out, window.w.out, k});
}

double Conv2DFlops(const Shape& y, const Shape& filter) {
  const int64_t channels = y.dim(3);
  return channels == 0 ? 0
                       : 2.0 * static_cast<double>(y.elements()) * static_cast<double>(filter.elements() / channels);
}

ConvolutionGeometry Conv2DGeometry(const Attrs& attrs, const TensorSpec& x, const Shape& filter) {
  const Shape rsck = FilterShape(attrs, filter);
  const std::vector<int64_t>& dilations = attrs.Ints("dilations");
  const Window window = *MakeWindow(attrs, x.shape, rsck[0], rsck[1], dilations[1], dilations[2]);
  return {.n = x.shape[0],
          .h = x.shape[1],
          .w = x.shape[2],
          .c = x.shape[3],
          .k = rsck[3],
          .r = rsck[0],
          .s = rsck[1],
          .stride_h = window.h.stride,
          .stride_w = window.w.stride,
          .pad_top = window.h.pad_low,
          .pad_bottom = window.h.pad_high,
          .pad_left = window.w.pad_low,
          .pad_right = window.w.pad_high,
          .dilation_h = window.h.dilation,
          .dilation_w = window.w.dilation,
          .groups = attrs.Int("groups"),
          .dtype = x.dtype};
}

absl::StatusOr<Kernel> MakeFilterThenBias(const KernelSpec& spec, const KernelFactory& make_filter,
                                          const KernelFactory& make_bias) {
  const absl::Span<const TensorSpec> dfilter = spec.outputs.subspan(0, 1), dbias = spec.outputs.subspan(1, 1);
  ASSIGN_OR_RETURN(Kernel filter, make_filter({spec.name, spec.attrs, spec.inputs, dfilter, spec.device}));
  ASSIGN_OR_RETURN(Kernel bias, make_bias({spec.name, spec.attrs, spec.inputs.subspan(2, 1), dbias, spec.device}));
  return Kernel{[filter = std::move(filter.run), bias = std::move(bias.run)](const KernelContext& context) {
                  RETURN_IF_ERROR(filter(context));
                  KernelContext second = context;
                  second.inputs += 2;
                  second.outputs += 1;
                  return bias(second);
                },
                std::max(filter.workspace_bytes, bias.workspace_bytes)};
}

absl::StatusOr<Kernel> WithBiasGradient(const KernelSpec& spec, Kernel filter) {
  if (spec.outputs.size() == 1) return filter;
  return MakeFilterThenBias(
      spec, [&](const KernelSpec&) { return std::move(filter); }, &MakeBiasAddGrad);
}

absl::StatusOr<Kernel> MakeConv2DTranspose(const KernelSpec& spec, const KernelFactory& make) {
  std::vector<TensorSpec> inputs(spec.inputs.begin(), spec.inputs.end());
  inputs[0] = spec.outputs[0];  // of which that kernel, too, reads the shape only
  return make({spec.name, spec.attrs, inputs, spec.outputs, spec.device});
}

}  // namespace belfry::ops
