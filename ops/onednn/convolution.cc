#include "ops/onednn/convolution.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"
#include "ops/onednn/versions.h"

namespace belfry::ops::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using tag = dnnl::memory::format_tag;

// Below this number of input channels the library's blocked backward-data kernel leaves most of its lanes empty, and
// its matrix product on plain weights is twice as fast (measured with AVX-512 and 3 channels).
constexpr int64_t kFewChannels = 8;

// The memory layouts tried when making a primitive.
struct Layouts {
  memory::desc x, weights, y;
};

struct ConvolutionProblem {
  memory::dims x, weights, y, bias, strides, dilations, pads_low, pads_high;
  Layouts plain;  // as stored by the caller

  // Layouts to try, best first. NHWC with weights in the library's layout is its fast path, and reorders the weights
  // only.
  std::vector<Layouts> Attempts(bool plain_weights_first) const {
    const auto any = [](const memory::dims& dims, const memory::desc& plain) {
      return memory::desc(dims, DataTypeOf(plain), tag::any);
    };
    const Layouts library_weights{plain.x, any(weights, plain.weights), plain.y};
    const Layouts library_all{any(x, plain.x), any(weights, plain.weights), any(y, plain.y)};
    if (plain_weights_first) return {plain, library_weights, library_all};
    return {library_weights, plain, library_all};
  }
};

absl::Status Validate(const ConvolutionGeometry& s) {
  const std::string what = s.DebugString();
  if (std::min({s.n, s.h, s.w, s.c, s.k, s.r, s.s, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w, s.groups}) < 1 ||
      std::min({s.pad_top, s.pad_bottom, s.pad_left, s.pad_right}) < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": sizes must be positive, and padding must not be negative"));
  }
  if (s.c % s.groups != 0 || s.k % s.groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": channels must be a multiple of the groups, ", s.groups));
  }
  if (s.h + s.pad_top + s.pad_bottom <= (s.r - 1) * s.dilation_h ||
      s.w + s.pad_left + s.pad_right <= (s.s - 1) * s.dilation_w) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": the window is larger than the padded image"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvolutionProblem> MakeProblem(const ConvolutionGeometry& s, DType weights_dtype) {
  RETURN_IF_ERROR(Validate(s));
  ASSIGN_OR_RETURN(const memory::data_type type, DataType(s.dtype));
  ASSIGN_OR_RETURN(const memory::data_type weights_type, DataType(weights_dtype));
  ConvolutionProblem p;
  p.x = {s.n, s.c, s.h, s.w};
  p.y = {s.n, s.k, s.out_h(), s.out_w()};
  p.bias = {s.k};
  p.strides = {s.stride_h, s.stride_w};
  p.dilations = {s.dilation_h - 1, s.dilation_w - 1};
  p.pads_low = {s.pad_top, s.pad_left};
  p.pads_high = {s.pad_bottom, s.pad_right};
  const int64_t c = s.c / s.groups, k = s.k / s.groups;
  memory::dims weight_strides{1, s.k, s.s * c * s.k, c * s.k};
  p.weights = {k, c, s.r, s.s};
  if (s.groups > 1) {
    p.weights.insert(p.weights.begin(), s.groups);
    weight_strides.insert(weight_strides.begin(), k);
  }
  p.plain = {memory::desc(p.x, type, tag::nhwc), memory::desc(p.weights, weights_type, weight_strides),
             memory::desc(p.y, type, tag::nhwc)};
  return p;
}

// Returns the first attempt that is not the library's reference implementation. `make` returns an empty descriptor if
// the library has no implementation.
template <class Desc, class Make>
absl::StatusOr<Desc> Choose(const std::string& what, const std::vector<Layouts>& attempts, Make make) {
  Desc reference;
  for (const Layouts& layouts : attempts) {
    Desc desc = make(layouts);
    if (!desc) continue;
    if (!IsReference(desc.impl_info_str())) return desc;
    if (!reference) reference = desc;
  }
  if (!reference) return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has no implementation"));
  return OnlyReference(what, reference.impl_info_str());
}

dnnl::convolution_forward::primitive_desc Forward(const ConvolutionProblem& p, const Layouts& l,
                                                  const memory::desc* bias, const Epilogue& post_ops) {
  using Convolution = dnnl::convolution_forward;
  const Target target{.engine = Cpu(), .attributes = Attributes(post_ops), .allow_empty = true};
  const auto training = prop_kind::forward_training;
  const auto direct = algorithm::convolution_direct;
  if (bias == nullptr) {
    return Describe<Convolution>(target, training, direct, l.x, l.weights, l.y, p.strides, p.dilations, p.pads_low,
                                 p.pads_high);
  }
  return Describe<Convolution>(target, training, direct, l.x, l.weights, *bias, l.y, p.strides, p.dilations, p.pads_low,
                               p.pads_high);
}

// The forward descriptor that the library requires for a backward primitive; only its shapes matter.
dnnl::convolution_forward::primitive_desc Hint(const ConvolutionProblem& p) {
  const auto any = [](const memory::dims& dims, const memory::desc& plain) {
    return memory::desc(dims, DataTypeOf(plain), tag::any);
  };
  const memory::data_type type = DataTypeOf(p.plain.x);
  return Forward(p, {any(p.x, p.plain.x), memory::desc(p.weights, type, tag::any), any(p.y, p.plain.y)}, nullptr, {});
}

}  // namespace

absl::StatusOr<Primitive> Conv2DForward(const ConvolutionGeometry& shape, const Conv2DForwardOptions& options) {
  const std::string what = shape.DebugString();
  ASSIGN_OR_RETURN(const ConvolutionProblem p, MakeProblem(shape, shape.dtype));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const memory::desc bias(p.bias, DataTypeOf(p.plain.x), tag::a);
    const auto make = [&](const Layouts& layouts) {
      return Forward(p, layouts, options.bias ? &bias : nullptr, options.post_ops);
    };
    ASSIGN_OR_RETURN(const auto desc, Choose<dnnl::convolution_forward::primitive_desc>(what, p.Attempts(false), make));
    Builder builder;
    const auto x = builder.Input(0, p.plain.x, desc.src_desc());
    const auto weights = builder.Input(1, p.plain.weights, desc.weights_desc());
    const auto y = builder.Output(0, p.plain.y, desc.dst_desc());
    const dnnl::convolution_forward primitive(desc);
    if (options.bias) {
      builder.Step(
          primitive, desc.scratchpad_desc(),
          {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, builder.Input(2, bias)}, {DNNL_ARG_DST, y}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, y}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> Conv2DBackwardData(const ConvolutionGeometry& shape) {
  const std::string what = absl::StrCat("gradient of x of ", shape.DebugString());
  ASSIGN_OR_RETURN(const ConvolutionProblem p, MakeProblem(shape, shape.dtype));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto hint = Hint(p);
    if (!hint) return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has no implementation"));
    const auto make = [&](const Layouts& l) {
      const Target target{.engine = Cpu(), .attributes = Attributes(), .allow_empty = true};
      return DescribeBackward<dnnl::convolution_backward_data>(target, hint, algorithm::convolution_direct, l.x,
                                                               l.weights, l.y, p.strides, p.dilations, p.pads_low,
                                                               p.pads_high);
    };
    const bool few_channels = shape.groups == 1 && shape.c < kFewChannels;
    ASSIGN_OR_RETURN(const auto desc,
                     Choose<dnnl::convolution_backward_data::primitive_desc>(what, p.Attempts(few_channels), make));
    Builder builder;
    const auto dy = builder.Input(0, p.plain.y, desc.diff_dst_desc());
    const auto weights = builder.Input(1, p.plain.weights, desc.weights_desc());
    const auto dx = builder.Output(0, p.plain.x, desc.diff_src_desc());
    builder.Step(dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, dx}});
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> Conv2DBackwardWeights(const ConvolutionGeometry& shape,
                                                const Conv2DBackwardWeightsOptions& options) {
  const std::string what = absl::StrCat("gradient of the weights of ", shape.DebugString());
  ASSIGN_OR_RETURN(const ConvolutionProblem p, MakeProblem(shape, options.gradient_dtype));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto hint = Hint(p);
    if (!hint) return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has no implementation"));
    const memory::desc bias(p.bias, DataTypeOf(p.plain.weights), tag::a);
    const auto make = [&](const Layouts& l) {
      using Convolution = dnnl::convolution_backward_weights;
      const Target target{.engine = Cpu(), .attributes = Attributes(), .allow_empty = true};
      const auto direct = algorithm::convolution_direct;
      if (!options.bias) {
        return DescribeBackward<Convolution>(target, hint, direct, l.x, l.weights, l.y, p.strides, p.dilations,
                                             p.pads_low, p.pads_high);
      }
      return DescribeBackward<Convolution>(target, hint, direct, l.x, l.weights, bias, l.y, p.strides, p.dilations,
                                           p.pads_low, p.pads_high);
    };
    ASSIGN_OR_RETURN(const auto desc,
                     Choose<dnnl::convolution_backward_weights::primitive_desc>(what, p.Attempts(false), make));
    Builder builder;
    const auto x = builder.Input(0, p.plain.x, desc.src_desc());
    const auto dy = builder.Input(1, p.plain.y, desc.diff_dst_desc());
    const auto dweights = builder.Output(0, p.plain.weights, desc.diff_weights_desc());
    const dnnl::convolution_backward_weights primitive(desc);
    if (options.bias) {
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x},
                    {DNNL_ARG_DIFF_DST, dy},
                    {DNNL_ARG_DIFF_WEIGHTS, dweights},
                    {DNNL_ARG_DIFF_BIAS, builder.Output(1, bias)}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dweights}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

}  // namespace belfry::ops::onednn
