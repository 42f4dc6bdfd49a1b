#include <algorithm>
#include <array>
#include <vector>

#include "ops/common/index_type_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

// Extents written by one launch; they are passed as a kernel argument.
struct Extents {
  static constexpr int kMax = 32;
  int64_t extent[kMax];
};

template <class T>
absl::Status WriteExtents(Stream& stream, int64_t n, const Extents& extents, T* y) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { y[i] = static_cast<T>(extents.extent[i]); });
}

template <class T>
Kernel ShapeKernel(const Shape& shape) {
  return Kernel{[dims = std::vector<int64_t>(shape.dims().begin(), shape.dims().end())](const KernelContext& context) {
    const auto rank = static_cast<int64_t>(dims.size());
    for (int64_t first = 0; first < rank; first += Extents::kMax) {
      const int64_t n = std::min<int64_t>(Extents::kMax, rank - first);
      Extents extents = {};
      std::copy_n(dims.begin() + first, n, extents.extent);
      const absl::Status status = WriteExtents(*context.stream, n, extents, context.output<T>(0) + first);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeShape(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  return WithIndexType(spec.outputs[0].dtype, [&](auto index) { return ShapeKernel<decltype(index)>(shape); });
}

}  // namespace

void AddShapeGpuKernels(KernelTable& table) { table.AddKernels("Shape", AnyTypeGpuKernels(MakeShape)); }

}  // namespace belfry::ops
