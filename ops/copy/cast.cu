#include <algorithm>
#include <array>
#include <vector>

#include "ops/copy/cast_impl.h"
#include "ops/copy/convert_gpu_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

constexpr int kPack = 4;

template <class From, class To>
absl::Status Convert(Stream& stream, int64_t n, const gpu::Stored<From>* x, gpu::Stored<To>* y) {
  using In = GpuPack<gpu::Stored<From>, kPack>;
  using Out = GpuPack<gpu::Stored<To>, kPack>;
  const int64_t packs = n / kPack, packed = packs * kPack;
  return gpu::ForEach(stream, packs + n % kPack, [=] BELFRY_GPU(int64_t i) {
    if (i < packs) {
      const In in = reinterpret_cast<const In*>(x)[i];
      Out out;
      for (int k = 0; k < kPack; ++k) out.at[k] = GpuConvert<To, From>(in.at[k]);
      reinterpret_cast<Out*>(y)[i] = out;
    } else {
      const int64_t at = packed + (i - packs);
      y[at] = GpuConvert<To, From>(x[at]);
    }
  });
}

template <class From, class To>
Kernel CastKernel(int64_t n) {
  return Kernel{[n](const KernelContext& context) {
    return Convert<From, To>(*context.stream, n, context.input<gpu::Stored<From>>(0),
                             context.output<gpu::Stored<To>>(0));
  }};
}

template <class From>
absl::StatusOr<Kernel> MakeCast(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].shape.elements();
  return MakeCastTo(spec.outputs[0].dtype, [n](auto to) { return CastKernel<From, typename decltype(to)::type>(n); });
}

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
  return spec.outputs[0].dtype == DType::kInt32 ? ShapeKernel<int32_t>(shape) : ShapeKernel<int64_t>(shape);
}

}  // namespace

void AddCastGpuKernels(KernelTable& table) {
  table.AddKernels("Cast", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t, bool>(
                               "GPU", [](auto tag) { return &MakeCast<typename decltype(tag)::type>; }));
  table.AddKernels("Shape", AnyTypeGpuKernels(MakeShape));
}

}  // namespace belfry::ops
