#include <cmath>

#include "framework/graph/op_def.h"
#include "ops/gpu/families.h"
#include "ops/nn/columns_gpu_impl.h"

namespace belfry::ops {
namespace {

// y = scale (x - mean) / sqrt(variance + epsilon) + offset.
template <class T>
struct Normalize {
  using C = gpu::Compute<T>;
  struct Column {
    C mean, factor, offset;
  };
  const gpu::Stored<T>* x;
  const C *scale, *offset, *mean, *variance;
  gpu::Stored<T>* y;
  C epsilon;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const {
    return {mean[c], scale[c] / std::sqrt(variance[c] + epsilon), offset[c]};
  }
  BELFRY_GPU gpu::Stored<T> Read(int64_t at, int64_t) const { return x[at]; }
  BELFRY_GPU void Take(const Column& c, gpu::Stored<T> in, int64_t at, NoSum&) const {
    y[at] = gpu::Narrow<T>((gpu::Widen(in) - c.mean) * c.factor + c.offset);
  }
};

struct Sizes {
  int64_t rows, channels;
  explicit Sizes(const KernelSpec& spec)
      : rows(spec.inputs[0].shape.elements(0, spec.inputs[0].shape.rank() - 1)), channels(spec.inputs[0].shape[-1]) {}
};

template <class T>
absl::Status RunNormalize(const KernelContext& at, const ColumnSlices& slices, const gpu::Compute<T>* mean,
                          const gpu::Compute<T>* variance, gpu::Compute<T> epsilon) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  if (slices.rows == 0) return absl::OkStatus();
  return ForEachElementByColumn(
      *at.stream, slices,
      Normalize<T>{at.input<S>(0), at.input<C>(1), at.input<C>(2), mean, variance, at.output<S>(0), epsilon});
}

// Inputs x, scale, offset; outputs y, mean, variance.
template <class T>
absl::StatusOr<Kernel> MakeTraining(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const Sizes size(spec);
  const auto sums = ColumnSlices::ForSums(size.rows, size.channels);
  return Kernel{[sums, slices = ColumnSlices::ForElements(size.rows, size.channels),
                 epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& at) {
                  C *mean = at.output<C>(1), *variance = at.output<C>(2);
                  RETURN_IF_ERROR(
                      GpuColumnMoments<T>(*at.stream, sums, at.workspace, at.input<gpu::Stored<T>>(0), mean, variance));
                  return RunNormalize<T>(at, slices, mean, variance, epsilon);
                },
                ColumnMomentsBytes<T>(sums)};
}

// Inputs x, scale, offset, mean, variance; output y.
template <class T>
absl::StatusOr<Kernel> MakeInference(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  const Sizes size(spec);
  return Kernel{[slices = ColumnSlices::ForElements(size.rows, size.channels),
                 epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& at) {
    return RunNormalize<T>(at, slices, at.input<C>(3), at.input<C>(4), epsilon);
  }};
}

template <class T>
struct Pair {
  gpu::Stored<T> x, dy;
};

// The sums of dy and of dy (x - mean).
template <class T>
struct SlopesOfSlice {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  const gpu::Stored<T>*x, *dy;
  const C* mean;

  BELFRY_GPU C Begin(int64_t c, int64_t) const { return mean[c]; }
  BELFRY_GPU Pair<T> Read(int64_t at, int64_t) const { return {x[at], dy[at]}; }
  BELFRY_GPU void Take(C center, const Pair<T>& in, int64_t, Sum& sum) const {
    const C slope = gpu::Widen(in.dy);
    sum.of[0] += slope;
    sum.of[1] += slope * (gpu::Widen(in.x) - center);
  }
  BELFRY_GPU Sum Finish(C, const Sum& sum, int64_t) const { return sum; }
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

// dx = scale / sqrt(variance + epsilon) (dy - share (doffset + normal dscale)), share = 1 / rows or, where mean and
// variance do not depend on x, 0.
template <class T>
struct BatchNormGradient {
  using C = gpu::Compute<T>;
  struct Column {
    C mean, inverse, factor, doffset, dscale;
  };
  const gpu::Stored<T>*x, *dy;
  const C *scale, *mean, *variance, *dscale, *doffset;
  gpu::Stored<T>* dx;
  C epsilon, share;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const {
    const C inverse = 1 / std::sqrt(variance[c] + epsilon);
    return {mean[c], inverse, scale[c] * inverse, doffset[c], dscale[c]};
  }
  BELFRY_GPU Pair<T> Read(int64_t at, int64_t) const { return {x[at], dy[at]}; }
  BELFRY_GPU void Take(const Column& c, const Pair<T>& in, int64_t at, NoSum&) const {
    const C normal = (gpu::Widen(in.x) - c.mean) * c.inverse;
    dx[at] = gpu::Narrow<T>(c.factor * (gpu::Widen(in.dy) - share * (c.doffset + normal * c.dscale)));
  }
};

// Inputs x, dy, scale, mean, variance; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> MakeGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Sizes size(spec);
  const auto sums = ColumnSlices::ForSums(size.rows, size.channels);
  const C share = spec.attrs.Bool("fixed_statistics") || size.rows == 0 ? C(0) : 1 / static_cast<C>(size.rows);
  return Kernel{
      [sums, slices = ColumnSlices::ForElements(size.rows, size.channels), share,
       epsilon = static_cast<C>(spec.attrs.Float("epsilon"))](const KernelContext& at) {
        const S *x = at.input<S>(0), *dy = at.input<S>(1);
        const C *scale = at.input<C>(2), *mean = at.input<C>(3), *variance = at.input<C>(4);
        C *dscale = at.output<C>(1), *doffset = at.output<C>(2);
        RETURN_IF_ERROR(GpuColumnSums(*at.stream, sums, static_cast<C*>(at.workspace), SlopesOfSlice<T>{x, dy, mean},
                                      StoreSlopes<C>{variance, epsilon, dscale, doffset}));
        if (sums.rows == 0) return absl::OkStatus();
        return ForEachElementByColumn(
            *at.stream, slices,
            BatchNormGradient<T>{x, dy, scale, mean, variance, dscale, doffset, at.output<S>(0), epsilon, share});
      },
      ColumnSumsBytes<SlopesOfSlice<T>>(sums)};
}

}  // namespace

void AddBatchNormGpuKernels(OpRegistry& registry) {
  registry.AddKernels("BatchNorm", Kernels<float, double, Half, BFloat16>(
                                       "GPU", [](auto tag) { return &MakeTraining<typename decltype(tag)::type>; }));
  registry.AddKernels("BatchNormInference", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                        return &MakeInference<typename decltype(tag)::type>;
                      }));
  registry.AddKernels("BatchNormGrad", Kernels<float, double, Half, BFloat16>(
                                           "GPU", [](auto tag) { return &MakeGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
