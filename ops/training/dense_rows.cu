#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "ops/common/index_type_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

template <class T, class Index>
absl::Status Scatter(Stream& stream, int64_t count, int64_t width, int64_t rows, const gpu::Stored<T>* from,
                     const Index* indices, gpu::Stored<T>* to, float* touched) {
  const Divider by_width(width, count * width);
  RETURN_IF_ERROR(gpu::ForEach(stream, rows, [=] BELFRY_GPU(int64_t i) { touched[i] = 0; }));
  RETURN_IF_ERROR(gpu::ForEach(stream, rows * width, [=] BELFRY_GPU(int64_t i) { to[i] = gpu::Narrow<T>(0); }));
  return gpu::ForEach(stream, count * width, [=] BELFRY_GPU(int64_t i) {
    int64_t k = i;
    const int64_t column = by_width.Split(k);
    const auto row = static_cast<int64_t>(indices[k]);
    if (row < 0 || row >= rows) return;
    to[row * width + column] = from[i];
    if (column == 0) touched[row] = 1;
  });
}

template <class T>
absl::StatusOr<Kernel> MakeDenseRows(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Shape& values = spec.inputs[0].shape;
  const int64_t count = values[0], width = values.elements(1, values.rank()), rows = spec.outputs[1].shape[0];
  const DType index_type = spec.inputs[1].dtype;
  return Kernel{[=](const KernelContext& at) {
    const auto run = [&](const auto* indices) {
      return Scatter<T>(*at.stream, count, width, rows, at.input<S>(0), indices, at.output<S>(0), at.output<float>(1));
    };
    return WithIndexType(index_type, [&](auto index) { return run(at.input<decltype(index)>(1)); });
  }};
}

absl::Status Touched(Stream& stream, int64_t size, int64_t width, int64_t begin, const float* touched,
                     int64_t* indices) {
  return gpu::ForEach(stream, size,
                      [=] BELFRY_GPU(int64_t i) { indices[i] = touched[(begin + i) / width] > 0 ? i : -1; });
}

absl::StatusOr<Kernel> MakeTouchedIndices(const KernelSpec& spec) {
  const int64_t width = spec.attrs.Int("width"), begin = spec.attrs.Int("begin");
  return Kernel{[width, begin, size = spec.outputs[0].shape.elements()](const KernelContext& at) {
    return Touched(*at.stream, size, width, begin, at.input<float>(0), at.output<int64_t>(0));
  }};
}

}  // namespace

void AddDenseRowsGpuKernels(KernelTable& table) {
  table.AddKernels("DenseRows", Kernels<float, double, Half, BFloat16>(
                                    "GPU", [](auto tag) { return &MakeDenseRows<typename decltype(tag)::type>; }));
  table.AddKernels("TouchedIndices", {{"GPU", DType::kFloat32, &MakeTouchedIndices}});
}

}  // namespace belfry::ops
