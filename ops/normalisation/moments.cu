#include "framework/graph/op_def.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeMoments(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Shape& x = spec.inputs[0].shape;
  const auto parts = PartsOf<T>(x.elements(0, x.rank() - 1), x[-1]);
  return ColumnSumsKernel<Moments<C>>(
      spec, parts, [parts](const KernelContext& at, Moments<C>* partials, uint32_t* tickets) {
        return WithLanes<T>(parts.whole && AreAligned({at.input<S>(0)}), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          return GpuColumnMoments<T, kLanes>(*at.stream, parts.template Of<kLanes>(), partials, tickets, at.input<S>(0),
                                             at.output<C>(0), at.output<C>(1));
        });
      });
}

// dx = (dmean + 2 dvariance (x - mean)) / rows.
template <class T, int lanes>
struct MomentsGradient {
  using C = gpu::Compute<T>;
  using In = PackOf<T, lanes>;
  struct Lane {
    C mean, dmean, slope;
  };
  using Column = PerLane<Lane, lanes>;
  const gpu::Stored<T>* x;
  const C *mean, *dmean, *dvariance;
  gpu::Stored<T>* dx;
  C share;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const {
    Column column;
    for (int j = 0; j < lanes; ++j) {
      column.of[j] = {mean[c * lanes + j], dmean[c * lanes + j], 2 * dvariance[c * lanes + j]};
    }
    return column;
  }
  BELFRY_GPU In Read(int64_t at, int64_t) const { return PackAt<T, lanes>(x + at * lanes); }
  BELFRY_GPU void Take(const Column& column, In in, int64_t at, NoSum&) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const Lane& of = column.of[j];
      in.at[j] = gpu::Narrow<T>(share * (of.dmean + of.slope * (gpu::Widen(in.at[j]) - of.mean)));
    }
    StorePack<T, lanes>(dx + at * lanes, in);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeMomentsGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Shape& x = spec.inputs[0].shape;
  const int64_t rows = x.elements(0, x.rank() - 1);
  const C share = rows == 0 ? C(0) : 1 / static_cast<C>(rows);
  return Kernel{[slices = SlicesOf<T>(rows, x[-1]), share](const KernelContext& at) {
    return WithLanes<T>(slices.whole && AreAligned({at.input<S>(0), at.output<S>(0)}), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      return ForEachElementByColumn(*at.stream, slices.template Of<kLanes>(),
                                    MomentsGradient<T, kLanes>{at.input<S>(0), at.input<C>(1), at.input<C>(2),
                                                               at.input<C>(3), at.output<S>(0), share});
    });
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
