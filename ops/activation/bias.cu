#include "framework/graph/op_def.h"
#include "ops/activation/activation_ops.h"
#include "ops/gpu/columns_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T, int lanes>
struct ColumnSum {
  using C = gpu::Compute<T>;
  using In = PackOf<T, lanes>;
  using Sum = PerLane<Sums<C, 1>, lanes>;
  using Partial = Sums<C, 1>;
  static constexpr int kLanes = lanes;
  const gpu::Stored<T>* dy;

  BELFRY_GPU int Begin(int64_t, int64_t) const { return 0; }
  BELFRY_GPU In Read(int64_t at, int64_t) const { return PackAt<T, lanes>(dy + at * lanes); }
  BELFRY_GPU void Take(int, const In& in, int64_t, Sum& sum) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) sum.of[j].of[0] += gpu::Widen(in.at[j]);
  }
  BELFRY_GPU Partial Finish(int, const Sum& sum, int lane, int64_t) const { return sum.of[lane]; }
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
  using Sum = Sums<gpu::Compute<T>, 1>;
  const Shape& dy = spec.inputs[0].shape;
  const auto parts = PartsOf<T>(dy.elements(0, dy.rank() - 1), dy[-1]);
  return ColumnSumsKernel<Sum>(spec, parts, [parts](const KernelContext& at, Sum* partials, uint32_t* tickets) {
    return WithLanes<T>(parts.whole && AreAligned({at.input<S>(0)}), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      return GpuColumnSums(*at.stream, parts.template Of<kLanes>(), partials, tickets,
                           ColumnSum<T, kLanes>{at.input<S>(0)}, StoreSum<T>{at.output<S>(0)});
    });
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
  table.AddKernels("BiasAddGrad",
                   Kernels<float, double, Half, BFloat16>("GPU", [](auto) { return &MakeGpuBiasAddGrad; }));
}

}  // namespace belfry::ops
