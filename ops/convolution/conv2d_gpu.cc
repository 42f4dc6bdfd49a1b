#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/epilogue_gpu_impl.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/convolution/conv2d_gpu_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/gpu/autotune.h"
#include "spdlog/spdlog.h"

namespace belfry::ops {
namespace {

// A convolution and its surroundings: a border if the two ends of an axis are padded differently, the filter in the
// library's layout, and workspace for both and for the core.
struct Plan {
  GpuConv conv;
  GpuConvCore core;
  GpuBorder border;
  bool bordered = false;
  bool krsc = false;                             // the filter is in the library's layout already
  size_t size = 4;                               // of an element, in bytes
  size_t filter_at = 0, core_at = 0, bytes = 0;  // offsets in the workspace, which starts with the bordered images

  int64_t taps() const { return conv.r * conv.s * (conv.c / conv.groups); }

  // Runs a node with inputs x, filter and dy or bias, and one output, which is y, dx or dfilter by the kind.
  absl::Status Run(const KernelContext& context) const {
    Stream& stream = *context.stream;
    const bool forward = conv.kind == GpuConv::Kind::kForward, data = conv.kind == GpuConv::Kind::kBackwardData;
    void* const output = context.outputs[0];
    void* const x = data ? output : const_cast<void*>(context.inputs[0]);
    void* const filter = forward || data ? const_cast<void*>(context.inputs[1]) : output;
    auto* const space = static_cast<unsigned char*>(AlignForLibraries(context.workspace));
    const GpuConvOperands at{.x = bordered ? space : x,
                             .filter = krsc ? filter : space + filter_at,
                             .y = forward ? output : const_cast<void*>(context.inputs[2]),
                             .bias = conv.bias ? context.inputs[2] : nullptr,
                             .workspace = space + core_at};
    if (bordered && !data) RETURN_IF_ERROR(PadImages(stream, size, border, x, at.x));
    if ((forward || data) && !krsc) RETURN_IF_ERROR(TransposeOnGpu(stream, size, taps(), conv.k, filter, at.filter));
    RETURN_IF_ERROR(core.run(stream, at));
    if (bordered && data) RETURN_IF_ERROR(CropImages(stream, size, border, at.x, x));
    return forward || data || krsc ? absl::OkStatus() : TransposeOnGpu(stream, size, conv.k, taps(), at.filter, filter);
  }
};

bool HasElements(const GpuConv& conv) {
  return conv.image_elements() > 0 && conv.filter_elements() > 0 && conv.output_elements() > 0;
}

// Convolutions that a device has warned about.
struct Warned {
  Mutex mutex;
  std::set<std::string> convolutions ABSL_GUARDED_BY(mutex);
};

// Warns that a convolution will be slow, once per device and regardless of the extents of the images.
absl::Status WarnOfPlain(const GpuConv& p, Device& device, const absl::Status& why) {
  ASSIGN_OR_RETURN(Warned* const warned, device.Shared<Warned>([] {
    return absl::StatusOr<std::unique_ptr<Warned>>(std::make_unique<Warned>());
  }));
  constexpr absl::string_view kKinds[] = {"forward", "gradient of images", "gradient of filters"};
  std::string convolution =
      absl::StrCat(DTypeName(p.dtype), " convolutions (", kKinds[static_cast<int>(p.kind)], ") with filters ", p.r,
                   " x ", p.s, ", strides ", p.stride_h, " x ", p.stride_w, ", dilations ", p.dilation_h, " x ",
                   p.dilation_w, " and ", p.groups, p.groups == 1 ? " group" : " groups");
  const MutexLock lock(warned->mutex);
  if (!warned->convolutions.insert(convolution).second) return absl::OkStatus();
  const MathMode math = device.math();
  spdlog::warn(
      "{}: {} use plain kernels, which are many times slower than cuDNN's: {}. cuDNN has the most engines for float32 "
      "and 16-bit types, one group, no dilation, and channels in multiples of 8{}",
      device.name().ToString(), convolution, std::string(why.message()),
      math.deterministic ? ", and when results need not be deterministic"
      : math.tf32        ? ""
                         : ", and with TF32");
  return absl::OkStatus();
}

// The convolution as the library computes it, with different padding at the two ends of an axis where there is.
GpuConv ConvOf(GpuConv::Kind kind, const ConvolutionGeometry& shape, bool bias, bool relu) {
  return {.kind = kind,
          .dtype = shape.dtype,
          .n = shape.n,
          .h = shape.h,
          .w = shape.w,
          .c = shape.c,
          .k = shape.k,
          .r = shape.r,
          .s = shape.s,
          .out_h = shape.out_h(),
          .out_w = shape.out_w(),
          .stride_h = shape.stride_h,
          .stride_w = shape.stride_w,
          .pad_h = shape.pad_top,
          .pad_w = shape.pad_left,
          .dilation_h = shape.dilation_h,
          .dilation_w = shape.dilation_w,
          .groups = shape.groups,
          .end_h = shape.pad_bottom - shape.pad_top,
          .end_w = shape.pad_right - shape.pad_left,
          .bias = bias,
          .relu = relu};
}

// Moves what the two ends of an axis do not share of the padding into a border of the images.
void AddBorder(Plan& plan) {
  GpuConv& p = plan.conv;
  plan.border = {p.n,
                 p.h,
                 p.w,
                 p.c,
                 std::max<int64_t>(-p.end_h, 0),
                 std::max<int64_t>(p.end_h, 0),
                 std::max<int64_t>(-p.end_w, 0),
                 std::max<int64_t>(p.end_w, 0)};
  p.h += plan.border.low_h + plan.border.high_h;
  p.w += plan.border.low_w + plan.border.high_w;
  p.pad_h -= plan.border.low_h;
  p.pad_w -= plan.border.low_w;
  p.end_h = p.end_w = 0;
  plan.bordered = true;
}

// Chooses the plan's core: the library's, if need be with a border; else ours, which computes no bias.
absl::Status ChooseCore(Plan& plan, Device& device) {
  const GpuConv whole = plan.conv;
  if (!HasElements(whole)) {
    plan.core = MakePlainGpuConv(whole);
    return whole.bias ? absl::UnimplementedError("no elements") : absl::OkStatus();
  }
  absl::StatusOr<GpuConvCore> core = MakeLibraryGpuConv(whole, device);
  if (absl::IsUnimplemented(core.status()) && (whole.end_h != 0 || whole.end_w != 0)) {
    AddBorder(plan);
    core = MakeLibraryGpuConv(plan.conv, device);
  }
  if (absl::IsUnimplemented(core.status()) && !whole.bias) {
    RETURN_IF_ERROR(WarnOfPlain(whole, device, core.status()));
    plan.conv = whole;
    plan.bordered = false;
    core = MakePlainGpuConv(whole);
  }
  RETURN_IF_ERROR(core.status());
  plan.core = *std::move(core);
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(GpuConv::Kind kind, const KernelSpec& spec, bool bias = false, bool relu = false) {
  const ConvolutionGeometry shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
  Plan plan;
  plan.conv = ConvOf(kind, shape, bias, relu);
  RETURN_IF_ERROR(ChooseCore(plan, *spec.device));
  plan.size = SizeOf(shape.dtype);
  plan.krsc = HasKrscFilter(spec.attrs);
  plan.filter_at =
      plan.bordered ? AlignUp(static_cast<size_t>(plan.conv.image_elements()) * plan.size, kLibraryAlignment) : 0;
  const size_t filter = plan.krsc ? 0 : static_cast<size_t>(plan.conv.filter_elements()) * plan.size;
  plan.core_at = plan.filter_at + AlignUp(filter, kLibraryAlignment);
  plan.bytes = BytesForLibraries(plan.core_at + plan.core.workspace_bytes);
  return plan;
}

Kernel KernelOf(Plan plan) {
  const size_t bytes = plan.bytes;
  return Kernel{[plan = std::move(plan)](const KernelContext& context) { return plan.Run(context); }, bytes};
}

template <GpuConv::Kind kind>
absl::StatusOr<Kernel> MakeConv(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Plan plan, MakePlan(kind, spec));
  return KernelOf(std::move(plan));
}

absl::StatusOr<Kernel> MakeFused(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  if (FusedByGpuLibraries(epilogue)) {
    const bool relu = epilogue.activation == Activation::kRelu;
    absl::StatusOr<Plan> plan = MakePlan(GpuConv::Kind::kForward, spec, /*bias=*/true, relu);
    if (plan.ok()) return KernelOf(*std::move(plan));
    // The library may refuse a fusion in several ways; running out of memory is not one of them.
    if (absl::IsResourceExhausted(plan.status())) return plan.status();
  }
  ASSIGN_OR_RETURN(Kernel kernel, MakeConv<GpuConv::Kind::kForward>(spec));
  return WithGpuEpilogue(std::move(kernel), spec, epilogue);
}

absl::StatusOr<Kernel> MakeMasked(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Kernel kernel, MakeConv<GpuConv::Kind::kBackwardData>(spec));
  return WithGpuAddAndMask(std::move(kernel), spec);
}

}  // namespace

void AddConv2DGpuKernels(KernelTable& table) {
  const auto add = [&](absl::string_view op, absl::StatusOr<Kernel> (*make)(const KernelSpec&)) {
    std::vector<KernelDef> kernels;
    for (const DType dtype : kFloatTypes) kernels.push_back({"GPU", dtype, make});
    table.AddKernels(op, std::move(kernels));
  };
  add("Conv2D", &MakeConv<GpuConv::Kind::kForward>);
  add("Conv2DBackpropInput", &MakeConv<GpuConv::Kind::kBackwardData>);
  add("Conv2DTranspose",
      [](const KernelSpec& spec) { return MakeConv2DTranspose(spec, &MakeConv<GpuConv::Kind::kBackwardData>); });
  add("Conv2DBackpropInputReluGrad", &MakeMasked);
  add("Conv2DBackpropInputAddReluGrad", &MakeMasked);
  add("Conv2DBackpropFilter", &MakeConv<GpuConv::Kind::kBackwardFilter>);
  add("Conv2DBackpropFilterBias", [](const KernelSpec& spec) {
    return MakeFilterThenBias(spec, &MakeConv<GpuConv::Kind::kBackwardFilter>, &MakeGpuBiasAddGrad);
  });
  add("FusedConv2D", &MakeFused);
}

}  // namespace belfry::ops
