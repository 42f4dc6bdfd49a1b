#include <cstdint>

#include "framework/base/status.h"
#include "ops/elementwise/broadcast_gpu_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/product/matmul_gpu_impl.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {
namespace {

struct Matrices {
  Divider m, n;
  int64_t k;
  int64_t row_a, step_a;     // strides between rows of the product, and along the inner extent
  int64_t step_b, column_b;  // strides along the inner extent, and between columns of the product
  int64_t size_a, size_b;    // elements per matrix
};

template <class T, class Result>
absl::Status Multiply(Stream& stream, int64_t elements, const Matrices& size, const GpuBroadcast& batch,
                      const gpu::Stored<T>* a, const gpu::Stored<T>* b, gpu::Stored<Result>* y) {
  using W = typename functor::Wrapping<gpu::Compute<T>>::type;
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    int64_t product = i, at_a, at_b;
    const int64_t column = size.n.Split(product), row = size.m.Split(product);
    batch.Find(product, at_a, at_b);
    const gpu::Stored<T>* const from_a = a + at_a * size.size_a + row * size.row_a;
    const gpu::Stored<T>* const from_b = b + at_b * size.size_b + column * size.column_b;
    W sum = 0;
    for (int64_t p = 0; p < size.k; ++p) {
      sum += functor::Wrap(gpu::Widen(from_a[p * size.step_a])) * functor::Wrap(gpu::Widen(from_b[p * size.step_b]));
    }
    y[i] = gpu::Narrow<Result>(static_cast<gpu::Compute<T>>(sum));
  });
}

}  // namespace

template <class T, class Result>
absl::StatusOr<Kernel> MakePlainGpuMatMul(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  const int64_t elements = y.elements();
  if (elements == 0) return NothingToDo();
  const bool transpose_a = spec.attrs.Bool("transpose_a"), transpose_b = spec.attrs.Bool("transpose_b");
  const Matrices size{.m = Divider(y[-2], elements),
                      .n = Divider(y[-1], elements),
                      .k = a[transpose_a ? -2 : -1],
                      .row_a = transpose_a ? 1 : a[-1],
                      .step_a = transpose_a ? a[-1] : 1,
                      .step_b = transpose_b ? 1 : b[-1],
                      .column_b = transpose_b ? b[-1] : 1,
                      .size_a = a[-2] * a[-1],
                      .size_b = b[-2] * b[-1]};
  ASSIGN_OR_RETURN(const BroadcastPlan batch, PlanBroadcast(BatchOf(a), BatchOf(b)));
  return Kernel{[elements, size, batch = GpuBroadcast(batch)](const KernelContext& at) {
    return Multiply<T, Result>(*at.stream, elements, size, batch, at.input<S>(0), at.input<S>(1),
                               at.output<gpu::Stored<Result>>(0));
  }};
}

template absl::StatusOr<Kernel> MakePlainGpuMatMul<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<BFloat16>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<Half, float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<BFloat16, float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<int32_t>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakePlainGpuMatMul<int64_t>(const KernelSpec& spec);

void AddPlainMatMulGpuKernels(KernelTable& table) {
  table.AddKernels("MatMul", Kernels<int32_t, int64_t>(
                                 "GPU", [](auto tag) { return &MakePlainGpuMatMul<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
