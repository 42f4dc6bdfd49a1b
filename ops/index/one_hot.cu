#include "framework/base/status.h"
#include "ops/common/index_type_impl.h"
#include "ops/copy/element_bits.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/raw_gpu_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

// The result is [outer, depth, inner], the indices [outer, inner].
struct OneHotPlan {
  int64_t n = 0, depth = 1, inner = 1;
  Divider by_depth, by_inner;
  uint64_t on = 0, off = 0;
};

template <int bytes, class Number, class Index>
absl::Status Spread(Stream& stream, const OneHotPlan& plan, const Index* indices, GpuUnit<bytes>* y) {
  const GpuUnit<bytes> on = UnitOf<bytes>(plan.on), off = UnitOf<bytes>(plan.off);
  return gpu::ForEach(stream, plan.n, [=] BELFRY_GPU(int64_t i) {
    const Number row = plan.by_inner.Quotient(static_cast<Number>(i));
    const Number outer = plan.by_depth.Quotient(row);
    const auto at = static_cast<int64_t>(row) - static_cast<int64_t>(outer) * plan.depth;
    const int64_t within = i - static_cast<int64_t>(row) * plan.inner;
    const auto index = static_cast<int64_t>(indices[static_cast<int64_t>(outer) * plan.inner + within]);
    y[i] = index == at ? on : off;
  });
}

template <int bytes, class Index>
absl::StatusOr<Kernel> OneHotKernel(const KernelSpec& spec) {
  const TensorSpec& output = spec.outputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(spec.attrs.Int("axis"), output.shape.rank()));
  OneHotPlan plan;
  plan.n = output.shape.elements();
  plan.depth = output.shape[axis];
  plan.inner = output.shape.elements(axis + 1, output.shape.rank());
  plan.by_depth = Divider(plan.depth, plan.n);
  plan.by_inner = Divider(plan.inner, plan.n);
  plan.on = ElementBits(spec.attrs.Float("on_value"), output.dtype);
  plan.off = ElementBits(spec.attrs.Float("off_value"), output.dtype);
  return Kernel{[plan](const KernelContext& context) {
    const auto* indices = context.input<Index>(0);
    auto* const y = context.output<GpuUnit<bytes>>(0);
    return CountsIn32Bits(plan.n) ? Spread<bytes, uint32_t>(*context.stream, plan, indices, y)
                                  : Spread<bytes, int64_t>(*context.stream, plan, indices, y);
  }};
}

absl::StatusOr<Kernel> MakeOneHot(const KernelSpec& spec) {
  return WithUnit(SizeOf(spec.outputs[0].dtype), [&](auto bytes) -> absl::StatusOr<Kernel> {
    constexpr int kBytes = decltype(bytes)::value;
    const DType labels = spec.inputs[0].dtype;
    if (labels == DType::kUInt8) return OneHotKernel<kBytes, uint8_t>(spec);
    return WithIndexType(labels, [&](auto index) { return OneHotKernel<kBytes, decltype(index)>(spec); });
  });
}

}  // namespace

void AddOneHotGpuKernels(KernelTable& table) { table.AddKernels("OneHot", AnyTypeGpuKernels(MakeOneHot)); }

}  // namespace belfry::ops
