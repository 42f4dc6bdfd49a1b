#include "ops/onednn/pooling.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"
#include "ops/onednn/versions.h"

namespace belfry::ops::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

absl::Status Validate(const Pool2DShape& s) {
  const std::string what = s.DebugString();
  if (std::min({s.n, s.h, s.w, s.c, s.r, s.s, s.stride_h, s.stride_w}) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": sizes must be positive"));
  }
  if (std::min({s.pad_top, s.pad_bottom, s.pad_left, s.pad_right}) < 0 || std::max(s.pad_top, s.pad_bottom) >= s.r ||
      std::max(s.pad_left, s.pad_right) >= s.s) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": padding must be smaller than the window"));
  }
  if (s.h + s.pad_top + s.pad_bottom < s.r || s.w + s.pad_left + s.pad_right < s.s) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": the window is larger than the padded image"));
  }
  return absl::OkStatus();
}

struct PoolProblem {
  memory::desc x, y;
  PoolWindow window;
  algorithm kind;
};

absl::StatusOr<PoolProblem> MakeProblem(const Pool2DShape& s) {
  RETURN_IF_ERROR(Validate(s));
  ASSIGN_OR_RETURN(const memory::data_type type, DataType(s.dtype));
  const algorithm kind = s.kind == PoolKind::kMax                     ? algorithm::pooling_max
                         : s.kind == PoolKind::kAverageIncludePadding ? algorithm::pooling_avg_include_padding
                                                                      : algorithm::pooling_avg_exclude_padding;
  return PoolProblem{memory::desc({s.n, s.c, s.h, s.w}, type, memory::format_tag::nhwc),
                     memory::desc({s.n, s.c, s.out_h(), s.out_w()}, type, memory::format_tag::nhwc),
                     {.strides = {s.stride_h, s.stride_w},
                      .size = {s.r, s.s},
                      .pads_low = {s.pad_top, s.pad_left},
                      .pads_high = {s.pad_bottom, s.pad_right}},
                     kind};
}

dnnl::pooling_forward::primitive_desc Forward(const PoolProblem& p, bool training) {
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  using Pooling = dnnl::pooling_forward;
  const Target target{.engine = Cpu(), .attributes = Attributes()};
  return WithWindow<Pooling>(
      p.window, [&](const auto&... window) { return Describe<Pooling>(target, kind, p.kind, p.x, p.y, window...); });
}

}  // namespace

std::string Pool2DShape::DebugString() const {
  return absl::StrFormat("%s pooling %s [%d,%d,%d,%d] window %dx%d stride %dx%d padding %d,%d,%d,%d",
                         kind == PoolKind::kMax ? "maximum" : "average", DTypeName(dtype), n, h, w, c, r, s, stride_h,
                         stride_w, pad_top, pad_bottom, pad_left, pad_right);
}

absl::StatusOr<Primitive> Pool2DForward(const Pool2DShape& shape, bool training) {
  const std::string what = shape.DebugString();
  ASSIGN_OR_RETURN(const PoolProblem p, MakeProblem(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto desc = Forward(p, training);
    if (IsReference(desc.impl_info_str())) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const auto x = builder.Input(0, p.x);
    const auto y = builder.Output(0, p.y);
    const memory::desc winners = desc.workspace_desc();
    const dnnl::pooling_forward primitive(desc);
    if (winners.get_size() > 0) {
      builder.set_saved_bytes(winners.get_size());
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, builder.Output(1, winners)}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> Pool2DBackward(const Pool2DShape& shape) {
  const std::string what = absl::StrCat("gradient of ", shape.DebugString());
  ASSIGN_OR_RETURN(const PoolProblem p, MakeProblem(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    using Pooling = dnnl::pooling_backward;
    const Target target{.engine = Cpu(), .attributes = Attributes()};
    const auto desc = WithWindow<Pooling>(p.window, [&](const auto&... window) {
      return DescribeBackward<Pooling>(target, Forward(p, /*training=*/true), p.kind, p.x, p.y, window...);
    });
    if (IsReference(desc.impl_info_str())) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const auto dy = builder.Input(0, p.y);
    const auto dx = builder.Output(0, p.x);
    const memory::desc winners = desc.workspace_desc();
    const dnnl::pooling_backward primitive(desc);
    if (winners.get_size() > 0) {
      builder.set_saved_bytes(winners.get_size());
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, builder.Input(1, winners)}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(), {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

}  // namespace belfry::ops::onednn
