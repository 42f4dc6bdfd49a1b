// The gradient of Gather, and ScatterRows, on GPUs: slices of dy with equal indices are summed.
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/common/index_type_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"
#include "ops/index/row_sums_gpu_impl.h"

namespace belfry::ops {
namespace {

// The slices of dx, by row.
template <class S>
struct SlicesByRow {
  S* dx;
  BELFRY_GPU S* At(const GatherLayout& layout, uint64_t key, int64_t outer, int64_t inner) const {
    return dx + (outer * layout.rows + RowOf(key)) * layout.inner + inner;
  }
};

template <class T, class Index>
Kernel GatherGradKernel(const GatherLayout& layout) {
  using S = gpu::Stored<T>;
  const SumPlan plan(layout);
  return {[plan](const KernelContext& context) {
            Stream& stream = *context.stream;
            const GatherLayout& layout = plan.layout;
            auto* const dx = context.output<S>(0);
            const auto elements = static_cast<size_t>(layout.outer * layout.rows * layout.inner);
            RETURN_IF_ERROR(gpu::SetBytes(stream, dx, 0, elements * sizeof(S)));
            if (elements == 0 || plan.sums() == 0) return absl::OkStatus();
            return SumEqualRows<T>(stream, plan, context.input<Index>(1), context.input<S>(0), context.workspace,
                                   SlicesByRow<S>{dx})
                .status();
          },
          plan.workspace_bytes<gpu::Compute<T>>()};
}

template <class T>
absl::StatusOr<Kernel> AddRows(const KernelSpec& spec, const GatherLayout& layout) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (layout.rows > kMax || layout.count > kMax) {
    return absl::UnimplementedError(absl::StrCat("adding ", layout.count, " slices to ", layout.rows,
                                                 " (the gradient of a gather): a GPU supports at most ", kMax,
                                                 " of each"));
  }
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return GatherGradKernel<T, decltype(index)>(layout); });
}

template <class T>
absl::StatusOr<Kernel> MakeGatherGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GatherLayout layout,
                   MakeGatherLayout(spec.attrs, spec.outputs[0].shape, spec.inputs[1].shape));
  return AddRows<T>(spec, layout);
}

template <class T>
absl::StatusOr<Kernel> MakeScatterRows(const KernelSpec& spec) {
  return AddRows<T>(spec, ScatterLayout(spec));
}

}  // namespace

void AddGatherGradGpuKernels(KernelTable& table) {
  table.AddKernels("ScatterRows", Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
                                      "GPU", [](auto tag) { return &MakeScatterRows<typename decltype(tag)::type>; }));
  table.AddKernels("GatherGrad", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeGatherGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
