// Sums of rows with equal indices on GPUs, without atomics: the indices are sorted together with their positions.
#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/gpu/divider_impl.h"
#include "ops/index/sort_gpu_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

constexpr uint64_t kSkipped = 0xffffffff;  // the index of rows that count for nothing; it comes last

// The sort key: an index, then its position.
template <class Index>
struct KeyAt {
  const Index* indices;
  BELFRY_GPU uint64_t operator()(int64_t i) const {
    const auto index = static_cast<int64_t>(indices[i]);
    const bool counts = index >= 0 && index < static_cast<int64_t>(kSkipped);
    return (counts ? static_cast<uint64_t>(index) : kSkipped) << 32 | static_cast<uint64_t>(i);
  }
};
BELFRY_GPU inline uint64_t IndexOf(uint64_t key) { return key >> 32; }
BELFRY_GPU inline int64_t PositionOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }

template <class T, class Index>
Kernel SumRowsKernel(int64_t count, int64_t width) {
  const auto keys = static_cast<size_t>(count);
  Kernel kernel;
  kernel.workspace_bytes = 2 * keys * sizeof(uint64_t);
  kernel.run = [=](const KernelContext& context) -> absl::Status {
    if (count == 0) return absl::OkStatus();
    Stream& stream = *context.stream;
    auto* const a = static_cast<uint64_t*>(context.workspace);
    RETURN_IF_ERROR(SortKeys(stream, count, KeyAt<Index>{context.input<Index>(1)}, a, a + keys));
    const uint64_t* const sorted = SortedIn(count, a, a + keys);
    auto* const kept = context.output<Index>(1);
    RETURN_IF_ERROR(gpu::ForEach(stream, count, [=] BELFRY_GPU(int64_t s) {
      const uint64_t index = IndexOf(sorted[s]);
      const bool first = index != kSkipped && (s == 0 || IndexOf(sorted[s - 1]) != index);
      kept[PositionOf(sorted[s])] = first ? static_cast<Index>(index) : static_cast<Index>(-1);
    }));
    const auto* const rows = context.input<gpu::Stored<T>>(0);
    auto* const sums = context.output<gpu::Stored<T>>(0);
    const Divider by_width(width, count * width);
    return gpu::ForEach(stream, count * width, [=] BELFRY_GPU(int64_t i) {
      int64_t s = i;
      const int64_t column = by_width.Split(s);
      const uint64_t index = IndexOf(sorted[s]);
      gpu::Compute<T> sum = 0;
      if (index != kSkipped && (s == 0 || IndexOf(sorted[s - 1]) != index)) {
        for (int64_t k = s; k < count && IndexOf(sorted[k]) == index; ++k) {
          sum += gpu::Widen(rows[PositionOf(sorted[k]) * width + column]);
        }
      }
      sums[PositionOf(sorted[s]) * width + column] = gpu::Narrow<T>(sum);
    });
  };
  return kernel;
}

template <class T>
absl::StatusOr<Kernel> MakeSumRows(const KernelSpec& spec) {
  const Shape& rows = spec.inputs[0].shape;
  const int64_t width = rows.elements(1, rows.rank());
  if (rows[0] >= int64_t{1} << 31) return absl::UnimplementedError("more than 2^31 - 1 rows");
  return spec.inputs[1].dtype == DType::kInt32 ? SumRowsKernel<T, int32_t>(rows[0], width)
                                               : SumRowsKernel<T, int64_t>(rows[0], width);
}

}  // namespace

void AddSumRowsGpuKernels(KernelTable& table) {
  table.AddKernels("SumRows", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeSumRows<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
