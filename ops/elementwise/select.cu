#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/select_impl.h"
#include "ops/gpu/index_gpu_impl.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

using Strides = GpuStrides<kSelectOperands>;

template <int bytes>
absl::Status SelectSameShapes(Stream& stream, int64_t n, const bool* condition, const GpuUnit<bytes>* a,
                              const GpuUnit<bytes>* b, GpuUnit<bytes>* y) {
  constexpr int kPack = 4;
  using Values = GpuPack<GpuUnit<bytes>, kPack>;
  using Conditions = GpuPack<bool, kPack>;
  const int64_t packs = n / kPack, packed = packs * kPack;
  return gpu::ForEach(stream, packs + n % kPack, [=] BELFRY_GPU(int64_t i) {
    if (i < packs) {
      const Conditions where = reinterpret_cast<const Conditions*>(condition)[i];
      Values values = reinterpret_cast<const Values*>(a)[i];
      const Values others = reinterpret_cast<const Values*>(b)[i];
      for (int k = 0; k < kPack; ++k) values.at[k] = where.at[k] ? values.at[k] : others.at[k];
      reinterpret_cast<Values*>(y)[i] = values;
    } else {
      const int64_t at = packed + (i - packs);
      y[at] = condition[at] ? a[at] : b[at];
    }
  });
}

template <int bytes, class Index>
absl::Status SelectBroadcast(Stream& stream, int64_t n, const Strides& strides, const bool* condition,
                             const GpuUnit<bytes>* a, const GpuUnit<bytes>* b, GpuUnit<bytes>* y) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    int64_t at[kSelectOperands];
    strides.Find(static_cast<Index>(i), at);
    y[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
  });
}

template <int bytes>
absl::StatusOr<Kernel> SelectKernel(const KernelSpec& spec) {
  using Unit = GpuUnit<bytes>;
  const int64_t n = spec.outputs[0].shape.elements();
  if (n == 0) return Kernel{[](const KernelContext&) { return absl::OkStatus(); }};
  const std::vector<SelectAxis> axes = MergedSelectAxes(spec);
  if (axes.size() == 1 && axes[0].strides == std::array<int64_t, kSelectOperands>{1, 1, 1}) {
    return Kernel{[n](const KernelContext& context) {
      return SelectSameShapes<bytes>(*context.stream, n, context.input<bool>(0), context.input<Unit>(1),
                                     context.input<Unit>(2), context.output<Unit>(0));
    }};
  }
  if (axes.size() > Strides::kMaxAxes) {
    return absl::InvalidArgumentError(
        absl::StrCat("selecting along ", axes.size(), " axes is not supported; at most ", int{Strides::kMaxAxes}));
  }
  Strides strides;
  for (const SelectAxis& axis : axes) {
    Strides::Axis& to = strides.axis[strides.axes++];
    to.extent = Divider(axis.extent, n);
    for (int k = 0; k < kSelectOperands; ++k) to.stride[k] = axis.strides[static_cast<size_t>(k)];
  }
  return Kernel{[n, strides](const KernelContext& context) {
    const auto* condition = context.input<bool>(0);
    const Unit *a = context.input<Unit>(1), *b = context.input<Unit>(2);
    Unit* const y = context.output<Unit>(0);
    return CountsIn32Bits(n) ? SelectBroadcast<bytes, uint32_t>(*context.stream, n, strides, condition, a, b, y)
                             : SelectBroadcast<bytes, int64_t>(*context.stream, n, strides, condition, a, b, y);
  }};
}

absl::StatusOr<Kernel> MakeSelect(const KernelSpec& spec) {
  return WithUnit(SizeOf(spec.outputs[0].dtype),
                  [&](auto bytes) { return SelectKernel<decltype(bytes)::value>(spec); });
}

}  // namespace

void AddSelectGpuKernels(KernelTable& table) { table.AddKernels("Select", AnyTypeGpuKernels(MakeSelect)); }

}  // namespace belfry::ops
