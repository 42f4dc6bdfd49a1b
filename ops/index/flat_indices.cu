#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/index/flat_indices_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

template <class Index>
absl::Status Flatten(Stream& stream, int64_t n, const FlatIndicesLayout& layout, const Index* indices, int64_t* rows) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { rows[i] = layout.Row(indices + i * layout.axes); });
}

template <class Index>
absl::StatusOr<Kernel> MakeFlatIndices(const KernelSpec& spec) {
  return Kernel{[n = spec.outputs[0].shape.elements(), layout = FlatIndicesLayout(spec)](const KernelContext& context) {
    return Flatten(*context.stream, n, layout, context.input<Index>(0), context.output<int64_t>(0));
  }};
}

}  // namespace

void AddFlatIndicesGpuKernels(KernelTable& table) {
  table.AddKernels("FlatIndices", Kernels<int32_t, int64_t>(
                                      "GPU", [](auto tag) { return &MakeFlatIndices<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
