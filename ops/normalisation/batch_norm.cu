#include <array>
#include <cmath>
#include <utility>

#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/activation/activate.h"
#include "ops/cudnn/batch_norm.h"
#include "ops/gpu/autotune.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

// Operations fused after the normalisation, in the same pass over memory.
enum class Then { kNothing, kRelu, kAddRelu };

// The constants that normalise a column.
template <class C>
struct NormColumn {
  C mean, factor, offset;

  BELFRY_GPU C operator()(C x) const { return (x - mean) * factor + offset; }
};

template <class T, int lanes>
struct Pair {
  PackOf<T, lanes> first, second;
};

// y = scale (x - mean) / sqrt(variance + epsilon) + offset, followed by the fused operations.
template <Then then, class T, int lanes>
struct Normalize {
  using C = gpu::Compute<T>;
  using Column = PerLane<NormColumn<C>, lanes>;
  const gpu::Stored<T>*x, *addend;
  const C *scale, *offset, *mean, *variance;
  gpu::Stored<T>* y;
  C epsilon;

  BELFRY_GPU Column Begin(int64_t column, int64_t) const {
    Column normal;
    for (int j = 0; j < lanes; ++j) {
      const int64_t c = column * lanes + j;
      normal.of[j] = {mean[c], scale[c] / std::sqrt(variance[c] + epsilon), offset[c]};
    }
    return normal;
  }
  BELFRY_GPU Pair<T, lanes> Read(int64_t at, int64_t) const {
    return {PackAt<T, lanes>(x + at * lanes), PackAt<T, lanes>((then == Then::kAddRelu ? addend : x) + at * lanes)};
  }
  BELFRY_GPU void Take(const Column& normal, Pair<T, lanes> in, int64_t at, NoSum&) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      C value = normal.of[j](gpu::Widen(in.first.at[j]));
      if (then == Then::kAddRelu) value += gpu::Widen(in.second.at[j]);
      in.first.at[j] = gpu::Narrow<T>(then == Then::kNothing ? value : functor::Relu<C>()(value));
    }
    StorePack<T, lanes>(y + at * lanes, in.first);
  }
};

struct Sizes {
  int64_t rows, channels;
  explicit Sizes(const KernelSpec& spec)
      : rows(spec.inputs[0].shape.elements(0, spec.inputs[0].shape.rank() - 1)), channels(spec.inputs[0].shape[-1]) {}
};

template <Then then, class T>
absl::Status RunNormalize(const KernelContext& at, const MaybePacked<T, ColumnSlices>& slices,
                          const gpu::Compute<T>* mean, const gpu::Compute<T>* variance, gpu::Compute<T> epsilon) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  if (slices.single.rows == 0) return absl::OkStatus();
  const S *const x = at.input<S>(0), *const addend = then == Then::kAddRelu ? at.input<S>(3) : nullptr;
  return WithLanes<T>(slices.whole && AreAligned({x, addend, at.output<S>(0)}), [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    return ForEachElementByColumn(*at.stream, slices.template Of<kLanes>(),
                                  Normalize<then, T, kLanes>{x, addend, at.input<C>(1), at.input<C>(2), mean, variance,
                                                             at.output<S>(0), epsilon});
  });
}

// Conversions between our variance and 1 / sqrt(variance + epsilon), which the library's kernels use.
absl::Status InverseOfVariance(Stream& stream, int64_t n, float epsilon, const float* variance, float* inverse) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t c) { inverse[c] = 1 / std::sqrt(variance[c] + epsilon); });
}
// Accurate to about 3e-7 (variance + epsilon).
absl::Status VarianceOfInverse(Stream& stream, int64_t n, float epsilon, float* inverse) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t c) {
    const float variance = 1 / (inverse[c] * inverse[c]) - epsilon;
    inverse[c] = variance < 0 ? 0.0f : variance;
  });
}

// cuDNN's blocks wait for one another within a kernel, which may deadlock if another GPU is in use.
bool LibraryMay(const KernelSpec& spec) { return spec.inputs[0].shape.elements() > 0 && spec.device->only_gpu(); }

GpuBatchNorm LibraryNorm(const KernelSpec& spec) {
  const TensorSpec& x = spec.inputs[0];
  const int64_t n = x.shape[0], channels = x.shape[-1];
  return {.dtype = x.dtype,
          .n = n,
          .pixels = x.shape.elements() / (n * channels),
          .channels = channels,
          .epsilon = static_cast<float>(spec.attrs.Float("epsilon"))};
}

// Like MakeOwnTraining, by the library.
template <Then then>
absl::StatusOr<Kernel> MakeLibraryTraining(const KernelSpec& spec) {
  GpuBatchNorm norm = LibraryNorm(spec);
  norm.add = then == Then::kAddRelu;
  norm.relu = then != Then::kNothing;
  ASSIGN_OR_RETURN(LibraryCore core, MakeLibraryGpuBatchNorm(norm, *spec.device));
  const size_t bytes = BytesForLibraries(core.workspace_bytes);
  Kernel kernel{[core = std::move(core), norm](const KernelContext& at) {
                  std::array<void*, 7> operands{};
                  const int inputs = norm.add ? 4 : 3;
                  for (int i = 0; i < inputs; ++i) operands[i] = const_cast<void*>(at.inputs[i]);
                  for (int i = 0; i < 3; ++i) operands[inputs + i] = at.outputs[i];
                  RETURN_IF_ERROR(core.run(*at.stream, absl::MakeConstSpan(operands.data(), inputs + 3),
                                           AlignForLibraries(at.workspace)));
                  return VarianceOfInverse(*at.stream, norm.channels, norm.epsilon, at.output<float>(2));
                },
                bytes};
  kernel.in_place = false;
  return kernel;
}

// Inputs x, scale, offset and, if fused, an addend; outputs y, mean, variance.
template <Then then, class T>
absl::StatusOr<Kernel> MakeOwnTraining(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const Sizes size(spec);
  const auto parts = PartsOf<T>(size.rows, size.channels);
  return ColumnSumsKernel<Moments<C>>(
      spec, parts,
      [parts, slices = SlicesOf<T>(size.rows, size.channels), epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](
          const KernelContext& at, Moments<C>* partials, uint32_t* tickets) {
        C *mean = at.output<C>(1), *variance = at.output<C>(2);
        const auto* const x = at.input<gpu::Stored<T>>(0);
        RETURN_IF_ERROR(WithLanes<T>(parts.whole && AreAligned({x}), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          return GpuColumnMoments<T, kLanes>(*at.stream, parts.template Of<kLanes>(), partials, tickets, x, mean,
                                             variance);
        }));
        return RunNormalize<then, T>(at, slices, mean, variance, epsilon);
      });
}

template <Then then, class T>
absl::StatusOr<Kernel> MakeTraining(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Kernel own, (MakeOwnTraining<then, T>(spec)));
  if (!LibraryMay(spec)) return own;
  constexpr absl::string_view kNames[] = {"BatchNorm", "BatchNormRelu", "BatchNormAddRelu"};
  return FasterKernel(spec, kNames[static_cast<int>(then)], std::move(own),
                      [&] { return MakeLibraryTraining<then>(spec); });
}

// Inputs x, scale, offset, mean, variance; output y.
template <class T>
absl::StatusOr<Kernel> MakeInference(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const Sizes size(spec);
  return Kernel{[slices = SlicesOf<T>(size.rows, size.channels),
                 epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& at) {
    return RunNormalize<Then::kNothing, T>(at, slices, at.input<C>(3), at.input<C>(4), epsilon);
  }};
}

// Reads x and dy, with an addend of dy if there is one; dy counts as 0 where the ReLU gave 0.
template <Then then, bool add, class T, int lanes>
struct Slope {
  using C = gpu::Compute<T>;
  const gpu::Stored<T>*x, *dy, *addend;
  const C *scale, *offset, *mean, *variance;
  C epsilon;

  BELFRY_GPU NormColumn<C> Column(int64_t c) const {
    return {mean[c], scale[c] / std::sqrt(variance[c] + epsilon), then == Then::kRelu ? offset[c] : C(0)};
  }
  BELFRY_GPU Pair<T, lanes> Read(int64_t at) const {
    Pair<T, lanes> in{PackAt<T, lanes>(x + at * lanes), PackAt<T, lanes>(dy + at * lanes)};
    if constexpr (add) {
      const auto more = PackAt<T, lanes>(addend + at * lanes);
      BELFRY_UNROLL
      for (int j = 0; j < lanes; ++j) {
        in.second.at[j] = gpu::Narrow<T>(gpu::Widen(in.second.at[j]) + gpu::Widen(more.at[j]));
      }
    }
    return in;
  }
  // The slope of an element x.
  BELFRY_GPU C operator()(const NormColumn<C>& normal, C x, C slope) const {
    constexpr C kZero = functor::RoundsToZero(kDTypeOf<T>);
    return then == Then::kRelu ? functor::ReluGrad<C>()(slope, normal(x) - kZero) : slope;
  }
};

// Sums d and d (x - mean), where d are the slopes.
template <Then then, bool add, class T, int lanes>
struct SlopeSums {
  using C = gpu::Compute<T>;
  using Column = PerLane<NormColumn<C>, lanes>;
  using Sum = PerLane<Sums<C, 2>, lanes>;
  using Partial = Sums<C, 2>;
  static constexpr int kLanes = lanes;
  Slope<then, add, T, lanes> slope;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const {
    Column normal;
    for (int j = 0; j < lanes; ++j) normal.of[j] = slope.Column(c * lanes + j);
    return normal;
  }
  BELFRY_GPU Pair<T, lanes> Read(int64_t at, int64_t) const { return slope.Read(at); }
  BELFRY_GPU void Take(const Column& normal, const Pair<T, lanes>& in, int64_t, Sum& sum) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const C x = gpu::Widen(in.first.at[j]), d = slope(normal.of[j], x, gpu::Widen(in.second.at[j]));
      sum.of[j].of[0] += d;
      sum.of[j].of[1] += d * (x - normal.of[j].mean);
    }
  }
  BELFRY_GPU Partial Finish(const Column&, const Sum& sum, int lane, int64_t) const { return sum.of[lane]; }
};

template <class C>
struct StoreSlopes {
  const C* variance;
  C epsilon, *dscale, *doffset;

  BELFRY_GPU void operator()(int64_t c, const Sums<C, 2>& sum) const {
    doffset[c] = sum.of[0];
    dscale[c] = sum.of[1] / std::sqrt(variance[c] + epsilon);
  }
};

// dx = scale / sqrt(variance + epsilon) (d - share (doffset + z dscale)), where z is x normalised. share is 1 / rows,
// or 0 if mean and variance do not depend on x.
template <Then then, bool add, class T, int lanes>
struct BatchNormGradient {
  using C = gpu::Compute<T>;
  struct Lane {
    NormColumn<C> normal;
    C inverse, doffset, dscale;
  };
  using Column = PerLane<Lane, lanes>;
  Slope<then, add, T, lanes> slope;
  const C *dscale, *doffset;
  gpu::Stored<T>* dx;
  C share;

  BELFRY_GPU Column Begin(int64_t column, int64_t) const {
    Column lane;
    for (int j = 0; j < lanes; ++j) {
      const int64_t c = column * lanes + j;
      lane.of[j] = {slope.Column(c), 1 / std::sqrt(slope.variance[c] + slope.epsilon), doffset[c], dscale[c]};
    }
    return lane;
  }
  BELFRY_GPU Pair<T, lanes> Read(int64_t at, int64_t) const { return slope.Read(at); }
  BELFRY_GPU void Take(const Column& column, Pair<T, lanes> in, int64_t at, NoSum&) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const Lane& c = column.of[j];
      const C x = gpu::Widen(in.first.at[j]), d = slope(c.normal, x, gpu::Widen(in.second.at[j]));
      const C z = (x - c.normal.mean) * c.inverse;
      in.first.at[j] = gpu::Narrow<T>(c.normal.factor * (d - share * (c.doffset + z * c.dscale)));
    }
    StorePack<T, lanes>(dx + at * lanes, in.first);
  }
};

// Finds d, 0 where the ReLU gave 0, else dy with its addend if there is one, and sums as SlopeSums does.
template <bool add, class T, int lanes>
struct MaskedSlopeSums {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  using Column = PerLane<C, lanes>;
  using Sum = PerLane<Sums<C, 2>, lanes>;
  using Partial = Sums<C, 2>;
  static constexpr int kLanes = lanes;
  struct In {
    PackOf<T, lanes> x, dy, relu, addend;
  };
  const S *x, *dy, *relu, *addend;
  const C* mean;
  S* d;

  BELFRY_GPU Column Begin(int64_t column, int64_t) const {
    Column center;
    for (int j = 0; j < lanes; ++j) center.of[j] = mean[column * lanes + j];
    return center;
  }
  BELFRY_GPU In Read(int64_t at, int64_t) const {
    return {PackAt<T, lanes>(x + at * lanes), PackAt<T, lanes>(dy + at * lanes), PackAt<T, lanes>(relu + at * lanes),
            PackAt<T, lanes>((add ? addend : dy) + at * lanes)};
  }
  BELFRY_GPU void Take(const Column& center, In in, int64_t at, Sum& sum) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      C slope = gpu::Widen(in.dy.at[j]);
      if (add) slope += gpu::Widen(in.addend.at[j]);
      in.dy.at[j] = gpu::Narrow<T>(gpu::Widen(in.relu.at[j]) > 0 ? slope : C(0));
      slope = gpu::Widen(in.dy.at[j]);
      sum.of[j].of[0] += slope;
      sum.of[j].of[1] += slope * (gpu::Widen(in.x.at[j]) - center.of[j]);
    }
    StorePack<T, lanes>(d + at * lanes, in.dy);
  }
  BELFRY_GPU Partial Finish(const Column&, const Sum& sum, int lane, int64_t) const { return sum.of[lane]; }
};

// Inputs x, dy, scale, mean, variance, the output of a ReLU over the normalisation and an addend and, if one is added,
// an addend of dy; outputs dx, dscale, doffset and the gradient of the ReLU's input.
template <bool add, class T>
absl::StatusOr<Kernel> MakeAddReluGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  const Sizes size(spec);
  const auto parts = PartsOf<T>(size.rows, size.channels);
  return ColumnSumsKernel<Sum>(
      spec, parts,
      [parts, slices = SlicesOf<T>(size.rows, size.channels), epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](
          const KernelContext& at, Sum* partials, uint32_t* tickets) {
        const S *x = at.input<S>(0), *dy = at.input<S>(1), *relu = at.input<S>(5);
        const S* const addend = add ? at.input<S>(6) : nullptr;
        const C *mean = at.input<C>(3), *variance = at.input<C>(4);
        C *dscale = at.output<C>(1), *doffset = at.output<C>(2);
        S *dx = at.output<S>(0), *d = at.output<S>(3);
        return WithLanes<T>(parts.whole && AreAligned({x, dy, relu, addend, dx, d}), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          RETURN_IF_ERROR(GpuColumnSums(*at.stream, parts.template Of<kLanes>(), partials, tickets,
                                        MaskedSlopeSums<add, T, kLanes>{x, dy, relu, addend, mean, d},
                                        StoreSlopes<C>{variance, epsilon, dscale, doffset}));
          if (parts.single.rows == 0) return absl::OkStatus();
          const Slope<Then::kNothing, false, T, kLanes> slope{x,       d,    nullptr,  at.input<C>(2),
                                                              nullptr, mean, variance, epsilon};
          return ForEachElementByColumn(*at.stream, slices.template Of<kLanes>(),
                                        BatchNormGradient<Then::kNothing, false, T, kLanes>{
                                            slope, dscale, doffset, dx, 1 / static_cast<C>(parts.single.rows)});
        });
      });
}

// Inputs x, dy, scale, [offset,] mean, variance and, if one is added, an addend of dy; outputs dx, dscale, doffset.
// With the offset, dy is the gradient of a ReLU that follows the normalisation; its output is recomputed from x, which
// takes no memory traffic, whereas reading y would.
template <Then then, bool add, class T>
absl::StatusOr<Kernel> MakeOwnGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  constexpr int kMean = then == Then::kRelu ? 4 : 3;
  using Sum = Sums<C, 2>;
  const Sizes size(spec);
  const auto parts = PartsOf<T>(size.rows, size.channels);
  const bool fixed = then == Then::kNothing && spec.attrs.Bool("fixed_statistics");
  const C share = fixed || size.rows == 0 ? C(0) : 1 / static_cast<C>(size.rows);
  return ColumnSumsKernel<Sum>(
      spec, parts,
      [parts, slices = SlicesOf<T>(size.rows, size.channels), share,
       epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& at, Sum* partials,
                                                              uint32_t* tickets) {
        const S *x = at.input<S>(0), *dy = at.input<S>(1);
        const C *variance = at.input<C>(kMean + 1), *offset = then == Then::kRelu ? at.input<C>(3) : nullptr;
        C *dscale = at.output<C>(1), *doffset = at.output<C>(2);
        const S* const addend = add ? at.input<S>(kMean + 2) : nullptr;
        return WithLanes<T>(parts.whole && AreAligned({x, dy, addend, at.output<S>(0)}), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          const Slope<then, add, T, kLanes> slope{x,        dy,     addend, at.input<C>(2), offset, at.input<C>(kMean),
                                                  variance, epsilon};
          RETURN_IF_ERROR(GpuColumnSums(*at.stream, parts.template Of<kLanes>(), partials, tickets,
                                        SlopeSums<then, add, T, kLanes>{slope},
                                        StoreSlopes<C>{variance, epsilon, dscale, doffset}));
          if (parts.single.rows == 0) return absl::OkStatus();
          return ForEachElementByColumn(
              *at.stream, slices.template Of<kLanes>(),
              BatchNormGradient<then, add, T, kLanes>{slope, dscale, doffset, at.output<S>(0), share});
        });
      });
}

// Like MakeOwnGrad without a ReLU, by the library.
absl::StatusOr<Kernel> MakeLibraryGrad(const KernelSpec& spec) {
  GpuBatchNorm norm = LibraryNorm(spec);
  norm.gradient = true;
  ASSIGN_OR_RETURN(LibraryCore core, MakeLibraryGpuBatchNorm(norm, *spec.device));
  const size_t rest_at = AlignUp(static_cast<size_t>(norm.channels) * sizeof(float), kLibraryAlignment);
  const size_t bytes = BytesForLibraries(rest_at + core.workspace_bytes);
  Kernel kernel{
      [core = std::move(core), norm, rest_at](const KernelContext& at) {
        auto* const inverse = static_cast<float*>(AlignForLibraries(at.workspace));
        RETURN_IF_ERROR(InverseOfVariance(*at.stream, norm.channels, norm.epsilon, at.input<float>(4), inverse));
        void* const operands[] = {const_cast<void*>(at.inputs[0]),
                                  const_cast<void*>(at.inputs[1]),
                                  const_cast<void*>(at.inputs[2]),
                                  const_cast<void*>(at.inputs[3]),
                                  inverse,
                                  at.outputs[0],
                                  at.outputs[1],
                                  at.outputs[2]};
        return core.run(*at.stream, operands, reinterpret_cast<unsigned char*>(inverse) + rest_at);
      },
      bytes};
  kernel.in_place = false;
  return kernel;
}

// Only our kernels support a ReLU here: cuDNN's fused engines expect its mask as bits, which would have to be stored.
template <class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(Kernel own, (MakeOwnGrad<Then::kNothing, false, T>(spec)));
  if (!LibraryMay(spec) || spec.attrs.Bool("fixed_statistics")) return own;
  return FasterKernel(spec, "BatchNormGrad", std::move(own), [&] { return MakeLibraryGrad(spec); });
}

}  // namespace

void AddBatchNormGpuKernels(KernelTable& table) {
  table.AddKernels("BatchNorm", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeTraining<Then::kNothing, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormRelu", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeTraining<Then::kRelu, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormAddRelu", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeTraining<Then::kAddRelu, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormInference", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeInference<typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormGrad", Kernels<float, double, Half, BFloat16>(
                                        "GPU", [](auto tag) { return &MakeGrad<typename decltype(tag)::type>; }));
  table.AddKernels("BatchNormReluGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeOwnGrad<Then::kRelu, false, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormReluGradOfSum", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeOwnGrad<Then::kRelu, true, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormAddReluGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeAddReluGrad<false, typename decltype(tag)::type>;
                   }));
  table.AddKernels("BatchNormAddReluGradOfSum", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeAddReluGrad<true, typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
