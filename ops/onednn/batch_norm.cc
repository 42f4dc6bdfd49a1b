#include "ops/onednn/batch_norm.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"

namespace belfry::ops::onednn {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;

const normalization_flags kScaleAndShift = normalization_flags::use_scale | normalization_flags::use_shift;
const normalization_flags kGivenStatistics = kScaleAndShift | normalization_flags::use_global_stats;

std::string Describe(const BatchNormShape& s) {
  return absl::StrFormat("batch normalisation %s [%d,%d,%d,%d]", DTypeName(s.dtype), s.n, s.h, s.w, s.c);
}

absl::StatusOr<memory::desc> Data(const BatchNormShape& s) {
  if (std::min({s.n, s.h, s.w, s.c}) < 1) {
    return absl::InvalidArgumentError(Describe(s) + ": sizes must be positive");
  }
  ASSIGN_OR_RETURN(const memory::data_type type, DataType(s.dtype));
  return memory::desc({s.n, s.c, s.h, s.w}, type, memory::format_tag::nhwc);
}

memory::desc PerChannel(const BatchNormShape& s) {
  return memory::desc({s.c}, memory::data_type::f32, memory::format_tag::a);
}

dnnl::batch_normalization_forward::primitive_desc Forward(const BatchNormShape& s, const memory::desc& data,
                                                          prop_kind kind, normalization_flags flags) {
  const dnnl::batch_normalization_forward::desc desc(kind, data, s.epsilon, flags);
  return dnnl::batch_normalization_forward::primitive_desc(desc, Attributes(), Cpu());
}

}  // namespace

absl::StatusOr<Primitive> BatchNormTraining(const BatchNormShape& shape, bool allow_reference) {
  const std::string what = Describe(shape);
  ASSIGN_OR_RETURN(const memory::desc data, Data(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto desc = Forward(shape, data, prop_kind::forward_training, kScaleAndShift);
    if (IsReference(desc.impl_info_str()) && !allow_reference) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const memory::desc channels = PerChannel(shape);
    builder.Step(dnnl::batch_normalization_forward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, builder.Input(0, data)},
                  {DNNL_ARG_SCALE, builder.Input(1, channels)},
                  {DNNL_ARG_SHIFT, builder.Input(2, channels)},
                  {DNNL_ARG_DST, builder.Output(0, data)},
                  {DNNL_ARG_MEAN, builder.Output(1, channels)},
                  {DNNL_ARG_VARIANCE, builder.Output(2, channels)}});
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> BatchNormInference(const BatchNormShape& shape, bool allow_reference) {
  const std::string what = Describe(shape) + " with given statistics";
  ASSIGN_OR_RETURN(const memory::desc data, Data(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const auto desc = Forward(shape, data, prop_kind::forward_inference, kGivenStatistics);
    if (IsReference(desc.impl_info_str()) && !allow_reference) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const memory::desc channels = PerChannel(shape);
    builder.Step(dnnl::batch_normalization_forward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, builder.Input(0, data)},
                  {DNNL_ARG_SCALE, builder.Input(1, channels)},
                  {DNNL_ARG_SHIFT, builder.Input(2, channels)},
                  {DNNL_ARG_MEAN, builder.Input(3, channels)},
                  {DNNL_ARG_VARIANCE, builder.Input(4, channels)},
                  {DNNL_ARG_DST, builder.Output(0, data)}});
    return builder.Build(desc.impl_info_str());
  });
}

absl::StatusOr<Primitive> BatchNormBackward(const BatchNormShape& shape, bool fixed_statistics, bool allow_reference) {
  const std::string what = "gradient of " + Describe(shape);
  ASSIGN_OR_RETURN(const memory::desc data, Data(shape));
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const normalization_flags flags = fixed_statistics ? kGivenStatistics : kScaleAndShift;
    const auto hint = Forward(shape, data, prop_kind::forward_training, flags);
    const dnnl::batch_normalization_backward::desc backward(prop_kind::backward, data, data, shape.epsilon, flags);
    const dnnl::batch_normalization_backward::primitive_desc desc(backward, Attributes(), Cpu(), hint);
    if (IsReference(desc.impl_info_str()) && !allow_reference) return OnlyReference(what, desc.impl_info_str());
    Builder builder;
    const memory::desc channels = PerChannel(shape);
    const auto scale = builder.Input(2, channels);
    builder.Step(dnnl::batch_normalization_backward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, builder.Input(0, data)},
                  {DNNL_ARG_DIFF_DST, builder.Input(1, data)},
                  {DNNL_ARG_SCALE, scale},
                  // Demanded by this version of the library, though the gradient does not depend on it.
                  {DNNL_ARG_SHIFT, scale},
                  {DNNL_ARG_MEAN, builder.Input(3, channels)},
                  {DNNL_ARG_VARIANCE, builder.Input(4, channels)},
                  {DNNL_ARG_DIFF_SRC, builder.Output(0, data)},
                  {DNNL_ARG_DIFF_SCALE, builder.Output(1, channels)},
                  {DNNL_ARG_DIFF_SHIFT, builder.Output(2, channels)}});
    return builder.Build(desc.impl_info_str());
  });
}

}  // namespace belfry::ops::onednn
