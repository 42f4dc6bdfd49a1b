#include "ops/onednn/lrn.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"

namespace belfry::ops::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

std::string Describe(const LrnShape& s) {
  return absl::StrFormat("LRN %s [%d,%d,%d,%d] depth_radius %d", DTypeName(s.dtype), s.n, s.h, s.w, s.c,
                         s.depth_radius);
}

// The stored data, and its float32 form for the computation: this version's bfloat16 gradient is wrong for windows of
// more than 5 channels, and for 3 and 5 if the channels are not a multiple of 16.
struct LrnData {
  memory::desc stored, computed;
};

absl::StatusOr<LrnData> MakeData(const LrnShape& s) {
  if (std::min({s.n, s.h, s.w, s.c}) < 1 || s.depth_radius < 0) {
    return absl::InvalidArgumentError(Describe(s) + ": sizes must be positive, and the radius must not be negative");
  }
  if (s.depth_radius == 0) {
    return absl::UnimplementedError(Describe(s) + ": oneDNN crashes on a window of one channel; use another kernel");
  }
  ASSIGN_OR_RETURN(const memory::data_type type, DataType(s.dtype));
  const memory::dims dims{s.n, s.c, s.h, s.w};
  return LrnData{memory::desc(dims, type, memory::format_tag::nhwc),
                 memory::desc(dims, memory::data_type::f32, memory::format_tag::nhwc)};
}

// This version's float32 gradient is wrong if the last vector of channels is not full and the radius exceeds 2.
// Measured against loops for 3 to 256 channels and windows of 3 to 33.
bool GradientIsWrong(const LrnShape& s) { return s.c > 16 && s.c % 16 != 0 && s.depth_radius > 2; }

int64_t Size(const LrnShape& s) { return 2 * s.depth_radius + 1; }
// The library divides its alpha by the size of the window.
float Alpha(const LrnShape& s) { return s.alpha * static_cast<float>(Size(s)); }

dnnl::lrn_forward::primitive_desc Forward(const LrnShape& s, const LrnData& data, bool training) {
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::lrn_forward::desc desc(kind, algorithm::lrn_across_channels, data.computed, Size(s), Alpha(s), s.beta,
                                     s.bias);
  return dnnl::lrn_forward::primitive_desc(desc, Attributes(), Cpu());
}

}  // namespace

absl::StatusOr<Primitive> LrnForward(const LrnShape& shape, bool training, bool allow_reference) {
  const std::string what = Describe(shape);
  ASSIGN_OR_RETURN(const LrnData data, MakeData(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto desc = Forward(shape, data, training);
    if (IsReference(desc.impl_info_str()) && !allow_reference) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const auto x = builder.Input(0, data.stored, data.computed);
    const auto y = builder.Output(0, data.stored, data.computed);
    const memory::desc saved = desc.workspace_desc();
    const dnnl::lrn_forward primitive(desc);
    if (saved.get_size() > 0) {
      builder.set_saved_bytes(saved.get_size());
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, builder.Output(1, saved)}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> LrnBackward(const LrnShape& shape, bool allow_reference) {
  const std::string what = "gradient of " + Describe(shape);
  ASSIGN_OR_RETURN(const LrnData data, MakeData(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const dnnl::lrn_backward::desc backward(algorithm::lrn_across_channels, data.computed, data.computed, Size(shape),
                                            Alpha(shape), shape.beta, shape.bias);
    const dnnl::lrn_backward::primitive_desc desc(backward, Attributes(), Cpu(), Forward(shape, data, true));
    if (IsReference(desc.impl_info_str()) && !allow_reference) return OnlyReference(what, desc.impl_info_str());
    if (!IsReference(desc.impl_info_str()) && GradientIsWrong(shape)) {
      return absl::UnimplementedError(what + ": oneDNN's gradient is wrong for this case; use another kernel");
    }
    Builder builder;
    const auto x = builder.Input(0, data.stored, data.computed);
    const auto dy = builder.Input(1, data.stored, data.computed);
    const auto dx = builder.Output(0, data.stored, data.computed);
    const memory::desc saved = desc.workspace_desc();
    const dnnl::lrn_backward primitive(desc);
    if (saved.get_size() > 0) {
      builder.set_saved_bytes(saved.get_size());
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x},
                    {DNNL_ARG_DIFF_DST, dy},
                    {DNNL_ARG_DIFF_SRC, dx},
                    {DNNL_ARG_WORKSPACE, builder.Input(2, saved)}});
    } else {
      builder.Step(primitive, desc.scratchpad_desc(),
                   {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
    }
    return builder.Build(desc.impl_info_str());
  });
}

}  // namespace belfry::ops::onednn
