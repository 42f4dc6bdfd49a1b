#include "framework/base/status.h"
#include "ops/common/index_type_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/raw_gpu_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

struct Dividers {
  Divider inner, count;
};

// `layout.inner` is in units of `bytes` bytes.
template <int bytes, class Number, class Index>
absl::Status GatherRows(Stream& stream, const GatherLayout& layout, const Dividers& dividers,
                        const GpuUnit<bytes>* params, const Index* indices, GpuUnit<bytes>* y) {
  return gpu::ForEach(stream, layout.outer * layout.count * layout.inner, [=] BELFRY_GPU(int64_t i) {
    const Number row = dividers.inner.Quotient(static_cast<Number>(i));
    const Number block = dividers.count.Quotient(row);
    const int64_t at = i - static_cast<int64_t>(row) * layout.inner;
    const auto index =
        static_cast<int64_t>(indices[static_cast<int64_t>(row) - static_cast<int64_t>(block) * layout.count]);
    GpuUnit<bytes> value{};
    if (index >= 0 && index < layout.rows) {
      value = params[(static_cast<int64_t>(block) * layout.rows + index) * layout.inner + at];
    }
    y[i] = value;
  });
}

template <int bytes, class Number, class Index>
Kernel GatherKernel(const GatherLayout& layout) {
  const int64_t n = layout.outer * layout.count * layout.inner;
  const Dividers dividers = {Divider(layout.inner, n), Divider(layout.count, n)};
  return Kernel{[layout, dividers](const KernelContext& context) {
    return GatherRows<bytes, Number, Index>(*context.stream, layout, dividers, context.input<GpuUnit<bytes>>(0),
                                            context.input<Index>(1), context.output<GpuUnit<bytes>>(0));
  }};
}

template <int bytes, class Index>
Kernel GatherKernelOf(const GatherLayout& layout) {
  return CountsIn32Bits(layout.outer * layout.count * layout.inner) ? GatherKernel<bytes, uint32_t, Index>(layout)
                                                                    : GatherKernel<bytes, int64_t, Index>(layout);
}

absl::StatusOr<Kernel> MakeGather(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(GatherLayout layout, MakeGatherLayout(spec.attrs, spec.inputs[0].shape, spec.inputs[1].shape));
  if (layout.outer * layout.count * layout.inner == 0) {
    return NothingToDo();
  }
  size_t unit = SizeOf(spec.outputs[0].dtype);
  for (; unit < kWidestUnit && layout.inner % 2 == 0; unit *= 2) layout.inner /= 2;
  return WithUnit(unit, [&](auto bytes) {
    constexpr int kBytes = decltype(bytes)::value;
    return WithIndexType(spec.inputs[1].dtype,
                         [&](auto index) { return GatherKernelOf<kBytes, decltype(index)>(layout); });
  });
}

}  // namespace

void AddGatherGpuKernels(KernelTable& table) { table.AddKernels("Gather", AnyTypeGpuKernels(MakeGather)); }

}  // namespace belfry::ops
