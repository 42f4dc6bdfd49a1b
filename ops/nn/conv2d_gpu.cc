#include <algorithm>
#include <utility>

#include "framework/base/status.h"
#include "ops/gpu/autotune.h"
#include "ops/gpu/families.h"
#include "ops/nn/conv2d_gpu_impl.h"
#include "ops/nn/conv2d_impl.h"
#include "ops/nn/epilogue_gpu_impl.h"

namespace belfry::ops {
namespace {

size_t Aligned(size_t bytes) { return (bytes + kLibraryAlignment - 1) / kLibraryAlignment * kLibraryAlignment; }

// A convolution with what surrounds it: a border where padding differs between two ends of an axis, the filter in the
// order of the library, and the workspace for both and for the core.
struct Plan {
  GpuConv conv;
  GpuConvCore core;
  GpuBorder border;
  bool bordered = false;
  size_t size = 4;                               // of an element
  size_t filter_at = 0, core_at = 0, bytes = 0;  // the bordered images come first

  int64_t taps() const { return conv.r * conv.s * (conv.c / conv.groups); }

  absl::Status Run(Stream& stream, const void* x, const void* filter, const void* y, const void* bias,
                   void* workspace) const {
    auto* const space = static_cast<unsigned char*>(AlignForLibraries(workspace));
    // Which of the three is written depends on the kind.
    GpuConvOperands at{const_cast<void*>(x), space + filter_at, const_cast<void*>(y), bias, space + core_at};
    if (bordered) at.x = space;
    if (bordered && conv.kind != GpuConv::Kind::kBackwardData) {
      RETURN_IF_ERROR(PadImages(stream, size, border, x, space));
    }
    if (conv.kind != GpuConv::Kind::kBackwardFilter) {
      RETURN_IF_ERROR(TransposeOnGpu(stream, size, taps(), conv.k, filter, at.filter));
    }
    RETURN_IF_ERROR(core.run(stream, at));
    if (bordered && conv.kind == GpuConv::Kind::kBackwardData) {
      return CropImages(stream, size, border, space, const_cast<void*>(x));
    }
    if (conv.kind != GpuConv::Kind::kBackwardFilter) return absl::OkStatus();
    return TransposeOnGpu(stream, size, conv.k, taps(), at.filter, const_cast<void*>(filter));
  }
};

bool HasElements(const GpuConv& conv) {
  return conv.image_elements() > 0 && conv.filter_elements() > 0 && conv.output_elements() > 0;
}

absl::StatusOr<Plan> MakePlan(GpuConv::Kind kind, const KernelSpec& spec, bool bias = false, bool relu = false) {
  const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
  const int64_t pad_h = std::min(shape.pad_top, shape.pad_bottom), pad_w = std::min(shape.pad_left, shape.pad_right);
  Plan plan;
  plan.border = {shape.n,
                 shape.h,
                 shape.w,
                 shape.c,
                 shape.pad_top - pad_h,
                 shape.pad_bottom - pad_h,
                 shape.pad_left - pad_w,
                 shape.pad_right - pad_w};
  plan.bordered = shape.pad_top != shape.pad_bottom || shape.pad_left != shape.pad_right;
  plan.conv = {.kind = kind,
               .dtype = shape.dtype,
               .n = shape.n,
               .h = shape.h + plan.border.low_h + plan.border.high_h,
               .w = shape.w + plan.border.low_w + plan.border.high_w,
               .c = shape.c,
               .k = shape.k,
               .r = shape.r,
               .s = shape.s,
               .out_h = shape.out_h(),
               .out_w = shape.out_w(),
               .stride_h = shape.stride_h,
               .stride_w = shape.stride_w,
               .pad_h = pad_h,
               .pad_w = pad_w,
               .dilation_h = shape.dilation_h,
               .dilation_w = shape.dilation_w,
               .groups = shape.groups,
               .bias = bias,
               .relu = relu};
  absl::StatusOr<GpuConvCore> core = absl::UnimplementedError("no elements");
  if (HasElements(plan.conv)) core = MakeLibraryGpuConv(plan.conv, *spec.device);
  if (absl::IsUnimplemented(core.status()) && !bias) core = MakePlainGpuConv(plan.conv);
  RETURN_IF_ERROR(core.status());
  plan.core = *std::move(core);
  plan.size = SizeOf(shape.dtype);
  plan.filter_at = plan.bordered ? Aligned(static_cast<size_t>(plan.conv.image_elements()) * plan.size) : 0;
  plan.core_at = plan.filter_at + Aligned(static_cast<size_t>(plan.conv.filter_elements()) * plan.size);
  plan.bytes = BytesForLibraries(plan.core_at + plan.core.workspace_bytes);
  return plan;
}

absl::StatusOr<Kernel> MakeForward(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Plan plan, MakePlan(GpuConv::Kind::kForward, spec));
  const size_t bytes = plan.bytes;
  return Kernel{[plan = std::move(plan)](const KernelContext& at) {
                  return plan.Run(*at.stream, at.inputs[0], at.inputs[1], at.outputs[0], nullptr, at.workspace);
                },
                bytes};
}

// Inputs x (its shape), filter, dy.
absl::StatusOr<Kernel> MakeBackpropInput(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Plan plan, MakePlan(GpuConv::Kind::kBackwardData, spec));
  const size_t bytes = plan.bytes;
  return Kernel{[plan = std::move(plan)](const KernelContext& at) {
                  return plan.Run(*at.stream, at.outputs[0], at.inputs[1], at.inputs[2], nullptr, at.workspace);
                },
                bytes};
}

// Inputs x, filter (its shape), dy.
absl::StatusOr<Kernel> MakeBackpropFilter(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Plan plan, MakePlan(GpuConv::Kind::kBackwardFilter, spec));
  const size_t bytes = plan.bytes;
  return Kernel{[plan = std::move(plan)](const KernelContext& at) {
                  return plan.Run(*at.stream, at.inputs[0], at.outputs[0], at.inputs[2], nullptr, at.workspace);
                },
                bytes};
}

// Outputs dfilter, dbias.
absl::StatusOr<Kernel> MakeBackpropFilterBias(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Kernel filter, MakeBackpropFilter(spec));
  const KernelDef* def = BuiltinOps().Find("BiasAddGrad")->FindKernel("GPU", spec.inputs[2].dtype);
  if (def == nullptr) return absl::UnimplementedError("there is no GPU kernel for the gradient of the bias");
  ASSIGN_OR_RETURN(Kernel bias, def->make({spec.name, spec.attrs, spec.inputs.subspan(2, 1), spec.outputs.subspan(1, 1),
                                           spec.device}));
  return Kernel{[filter = std::move(filter.run), bias = std::move(bias.run)](const KernelContext& context) {
                  RETURN_IF_ERROR(filter(context));
                  KernelContext second = context;
                  second.inputs += 2;
                  second.outputs += 1;
                  return bias(second);
                },
                std::max(filter.workspace_bytes, bias.workspace_bytes)};
}

absl::StatusOr<Kernel> MakeFused(const KernelSpec& spec) {
  const GpuEpilogue epilogue = GpuEpilogue::Of(spec.attrs);
  if (epilogue.is_relu() || epilogue.is_none()) {
    absl::StatusOr<Plan> plan = MakePlan(GpuConv::Kind::kForward, spec, /*bias=*/true, epilogue.is_relu());
    if (plan.ok()) {
      const size_t bytes = plan->bytes;
      return Kernel{[plan = *std::move(plan)](const KernelContext& at) {
                      return plan.Run(*at.stream, at.inputs[0], at.inputs[1], at.outputs[0], at.inputs[2],
                                      at.workspace);
                    },
                    bytes};
    }
    // What the library cannot fuse, it may refuse in several ways.
    if (absl::IsResourceExhausted(plan.status())) return plan.status();
  }
  ASSIGN_OR_RETURN(Kernel kernel, MakeForward(spec));
  return WithGpuEpilogue(std::move(kernel), spec, epilogue);
}

}  // namespace

void AddConv2DGpuKernels(OpRegistry& registry) {
  const auto add = [&](absl::string_view op, absl::StatusOr<Kernel> (*make)(const KernelSpec&)) {
    std::vector<KernelDef> kernels;
    for (const DType dtype : kFloatTypes) kernels.push_back({"GPU", dtype, make});
    registry.AddKernels(op, std::move(kernels));
  };
  add("Conv2D", &MakeForward);
  add("Conv2DBackpropInput", &MakeBackpropInput);
  add("Conv2DBackpropFilter", &MakeBackpropFilter);
  add("Conv2DBackpropFilterBias", &MakeBackpropFilterBias);
  add("FusedConv2D", &MakeFused);
}

}  // namespace belfry::ops
