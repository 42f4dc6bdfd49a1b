#include <cmath>

#include "framework/graph/op_def.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

// x viewed as [rows, n], where n is the number of normalised elements.
struct Rows {
  int64_t rows, n;
  double epsilon;

  explicit Rows(const KernelSpec& spec) {
    const Shape &x = spec.inputs[0].shape, &scale = spec.inputs[1].shape;
    n = scale.elements();
    rows = n == 0 ? 0 : x.elements(0, x.rank() - scale.rank());
    epsilon = spec.attrs.Float("epsilon");
  }
};

template <class C>
struct Moments {
  C mean, inverse;  // inverse: 1 / sqrt(variance + epsilon)
};

template <class T, class Team>
BELFRY_GPU Moments<gpu::Compute<T>> MomentsOf(const gpu::Stored<T>* x, const Rows& r, const Team& team) {
  using C = gpu::Compute<T>;
  C sum = 0, squares = 0;
  for (int64_t i = team.rank; i < r.n; i += team.size) sum += gpu::Widen(x[i]);
  const C mean = team.Sum(sum) / static_cast<C>(r.n);
  for (int64_t i = team.rank; i < r.n; i += team.size) {
    const C difference = gpu::Widen(x[i]) - mean;
    squares += difference * difference;
  }
  return {mean, 1 / std::sqrt(team.Sum(squares) / static_cast<C>(r.n) + static_cast<C>(r.epsilon))};
}

template <class T>
struct NormalizeRow {
  using C = gpu::Compute<T>;
  Rows r;
  const gpu::Stored<T>*x, *scale, *offset;
  gpu::Stored<T>* y;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const gpu::Stored<T>* from = x + row * r.n;
    gpu::Stored<T>* to = y + row * r.n;
    const Moments<C> moments = MomentsOf<T>(from, r, team);
    for (int64_t i = team.rank; i < r.n; i += team.size) {
      const C normal = (gpu::Widen(from[i]) - moments.mean) * moments.inverse;
      to[i] = gpu::Narrow<T>(normal * gpu::Widen(scale[i]) + gpu::Widen(offset[i]));
    }
  }
};

template <class T>
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[r = Rows(spec)](const KernelContext& at) {
    return ForEachRowOf(*at.stream, r.rows, r.n,
                        NormalizeRow<T>{r, at.input<S>(0), at.input<S>(1), at.input<S>(2), at.output<S>(0)});
  }};
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse, and over the rows dscale = sum dy z
// and doffset = sum dy. A first launch computes the constants of each row, a second one all three results on one pass
// down the columns, so dx may be x or dy.
template <class C>
struct RowFacts {
  C mean, inverse, g_mean, gz_mean;
};

template <class T>
struct FindRowFacts {
  using C = gpu::Compute<T>;
  Rows r;
  const gpu::Stored<T>*x, *scale, *dy;
  RowFacts<C>* facts;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const gpu::Stored<T>*from = x + row * r.n, *slopes = dy + row * r.n;
    const Moments<C> moments = MomentsOf<T>(from, r, team);
    Sums<C, 2> sum;
    for (int64_t i = team.rank; i < r.n; i += team.size) {
      const C g = gpu::Widen(slopes[i]) * gpu::Widen(scale[i]);
      sum.of[0] += g;
      sum.of[1] += g * ((gpu::Widen(from[i]) - moments.mean) * moments.inverse);
    }
    sum = team.Sum(sum);
    if (team.rank != 0) return;
    facts[row] = {moments.mean, moments.inverse, sum.of[0] / static_cast<C>(r.n), sum.of[1] / static_cast<C>(r.n)};
  }
};

template <class T>
struct LayerNormGradient {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  struct In {
    gpu::Stored<T> x, dy;
    RowFacts<C> row;
  };
  const gpu::Stored<T>*x, *scale, *dy;
  const RowFacts<C>* facts;
  gpu::Stored<T>* dx;

  BELFRY_GPU C Begin(int64_t c, int64_t) const { return gpu::Widen(scale[c]); }
  BELFRY_GPU In Read(int64_t at, int64_t row) const { return {x[at], dy[at], facts[row]}; }
  BELFRY_GPU void Take(C factor, const In& in, int64_t at, Sum& sum) const {
    const C z = (gpu::Widen(in.x) - in.row.mean) * in.row.inverse, slope = gpu::Widen(in.dy);
    sum.of[0] += slope * z;
    sum.of[1] += slope;
    dx[at] = gpu::Narrow<T>((slope * factor - in.row.g_mean - z * in.row.gz_mean) * in.row.inverse);
  }
  BELFRY_GPU Sum Finish(C, const Sum& sum, int64_t) const { return sum; }
};

template <class T>
struct StoreGradients {
  gpu::Stored<T>*dscale, *doffset;

  BELFRY_GPU void operator()(int64_t c, const Sums<gpu::Compute<T>, 2>& sum) const {
    dscale[c] = gpu::Narrow<T>(sum.of[0]);
    doffset[c] = gpu::Narrow<T>(sum.of[1]);
  }
};

// Inputs x, scale, dy; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> MakeLayerNormGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Rows r(spec);
  const auto slices = ColumnSlices::ForSums(r.rows, r.n);
  return Kernel{[r, slices](const KernelContext& at) {
                  const S *x = at.input<S>(0), *scale = at.input<S>(1), *dy = at.input<S>(2);
                  auto* facts = static_cast<RowFacts<C>*>(at.workspace);
                  C* partials = reinterpret_cast<C*>(facts + r.rows);
                  RETURN_IF_ERROR(ForEachRowOf(*at.stream, r.rows, r.n, FindRowFacts<T>{r, x, scale, dy, facts}));
                  return GpuColumnSums(*at.stream, slices, partials,
                                       LayerNormGradient<T>{x, scale, dy, facts, at.output<S>(0)},
                                       StoreGradients<T>{at.output<S>(1), at.output<S>(2)});
                },
                static_cast<size_t>(r.rows) * sizeof(RowFacts<C>) + ColumnSumsBytes<LayerNormGradient<T>>(slices)};
}

}  // namespace

void AddLayerNormGpuKernels(KernelTable& table) {
  table.AddKernels("LayerNorm", Kernels<float, double, Half, BFloat16>(
                                    "GPU", [](auto tag) { return &MakeLayerNorm<typename decltype(tag)::type>; }));
  table.AddKernels("LayerNormGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeLayerNormGrad<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
