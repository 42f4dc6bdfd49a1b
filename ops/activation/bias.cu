#include "framework/graph/op_def.h"
#include "ops/activation/activation_ops.h"
#include "ops/gpu/columns_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T>
struct AddBias {
  using C = gpu::Compute<T>;
  const gpu::Stored<T>*x, *bias;
  gpu::Stored<T>* y;

  BELFRY_GPU C Begin(int64_t c, int64_t) const { return gpu::Widen(bias[c]); }
  BELFRY_GPU gpu::Stored<T> Read(int64_t at, int64_t) const { return x[at]; }
  BELFRY_GPU void Take(C column, gpu::Stored<T> in, int64_t at, NoSum&) const {
    y[at] = gpu::Narrow<T>(gpu::Widen(in) + column);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeBiasAdd(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Shape& y = spec.outputs[0].shape;
  return Kernel{[slices = ColumnSlices::ForElements(y.elements(0, y.rank() - 1), y[-1]),
                 empty = y.elements() == 0](const KernelContext& at) {
    if (empty) return absl::OkStatus();
    return ForEachElementByColumn(*at.stream, slices, AddBias<T>{at.input<S>(0), at.input<S>(1), at.output<S>(0)});
  }};
}

template <class T>
struct ColumnSum {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 1>;
  using Partial = Sum;
  const gpu::Stored<T>* dy;

  BELFRY_GPU int Begin(int64_t, int64_t) const { return 0; }
  BELFRY_GPU gpu::Stored<T> Read(int64_t at, int64_t) const { return dy[at]; }
  BELFRY_GPU void Take(int, gpu::Stored<T> in, int64_t, Sum& sum) const { sum.of[0] += gpu::Widen(in); }
  BELFRY_GPU Sum Finish(int, const Sum& sum, int64_t) const { return sum; }
};

template <class T>
struct StoreSum {
  gpu::Stored<T>* dbias;
  BELFRY_GPU void operator()(int64_t c, const Sums<gpu::Compute<T>, 1>& sum) const {
    dbias[c] = gpu::Narrow<T>(sum.of[0]);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeBiasAddGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using Sum = typename ColumnSum<T>::Sum;
  const Shape& dy = spec.inputs[0].shape;
  const ColumnParts parts(dy.elements(0, dy.rank() - 1), dy[-1]);
  return ColumnSumsKernel<Sum>(spec, parts, [parts](const KernelContext& at, Sum* partials, uint32_t* tickets) {
    return GpuColumnSums(*at.stream, parts, partials, tickets, ColumnSum<T>{at.input<S>(0)},
                         StoreSum<T>{at.output<S>(0)});
  });
}

}  // namespace

absl::StatusOr<Kernel> MakeGpuBiasAddGrad(const KernelSpec& spec) {
  switch (spec.inputs[0].dtype) {
    case DType::kFloat64: return MakeBiasAddGrad<double>(spec);
    case DType::kFloat16: return MakeBiasAddGrad<Half>(spec);
    case DType::kBFloat16: return MakeBiasAddGrad<BFloat16>(spec);
    default: return MakeBiasAddGrad<float>(spec);
  }
}

void AddBiasGpuKernels(KernelTable& table) {
  table.AddKernels("BiasAdd", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeBiasAdd<typename decltype(tag)::type>; }));
  table.AddKernels("BiasAddGrad",
                   Kernels<float, double, Half, BFloat16>("GPU", [](auto) { return &MakeGpuBiasAddGrad; }));
}

}  // namespace belfry::ops
