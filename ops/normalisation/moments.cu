#include "framework/graph/op_def.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeMoments(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const Shape& x = spec.inputs[0].shape;
  const ColumnParts parts(x.elements(0, x.rank() - 1), x[-1]);
  return ColumnSumsKernel<Moments<C>>(
      spec, parts, [parts](const KernelContext& at, Moments<C>* partials, uint32_t* tickets) {
        return GpuColumnMoments<T>(*at.stream, parts, partials, tickets, at.input<gpu::Stored<T>>(0), at.output<C>(0),
                                   at.output<C>(1));
      });
}

// dx = (dmean + 2 dvariance (x - mean)) / rows.
template <class T>
struct MomentsGradient {
  using C = gpu::Compute<T>;
  struct Column {
    C mean, dmean, slope;
  };
  const gpu::Stored<T>* x;
  const C *mean, *dmean, *dvariance;
  gpu::Stored<T>* dx;
  C share;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const { return {mean[c], dmean[c], 2 * dvariance[c]}; }
  BELFRY_GPU gpu::Stored<T> Read(int64_t at, int64_t) const { return x[at]; }
  BELFRY_GPU void Take(const Column& c, gpu::Stored<T> in, int64_t at, NoSum&) const {
    dx[at] = gpu::Narrow<T>(share * (c.dmean + c.slope * (gpu::Widen(in) - c.mean)));
  }
};

template <class T>
absl::StatusOr<Kernel> MakeMomentsGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Shape& x = spec.inputs[0].shape;
  const int64_t rows = x.elements(0, x.rank() - 1);
  const C share = rows == 0 ? C(0) : 1 / static_cast<C>(rows);
  return Kernel{[slices = ColumnSlices::ForElements(rows, x[-1]), share](const KernelContext& at) {
    return ForEachElementByColumn(
        *at.stream, slices,
        MomentsGradient<T>{at.input<S>(0), at.input<C>(1), at.input<C>(2), at.input<C>(3), at.output<S>(0), share});
  }};
}

}  // namespace

void AddMomentsGpuKernels(KernelTable& table) {
  table.AddKernels("ChannelMoments", Kernels<float, double, Half, BFloat16>(
                                         "GPU", [](auto tag) { return &MakeMoments<typename decltype(tag)::type>; }));
  table.AddKernels("ChannelMomentsGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeMomentsGrad<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
