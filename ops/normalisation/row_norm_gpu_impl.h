// Kernels of layer norm, RMS norm and group norm, which differ in the elements that are normalised together. For .cu
// files.
//
// A Layout says where they are: `rows` sets of n elements. Element i of a row is at At(row, i) and has the scale and
// offset of column Column(row, i). In x as a matrix [matrix_rows, columns], element (r, c) belongs to Row(r, c).
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/graph/op_def.h"
#include "ops/common/square_range_impl.h"
#include "ops/gpu/columns_gpu_impl.h"

namespace belfry::ops {

// Rows of n elements side by side, as in layer norm.
struct RowLayout {
  int64_t rows, n, matrix_rows, columns;

  explicit RowLayout(const KernelSpec& spec) {
    const Shape &x = spec.inputs[0].shape, &scale = spec.inputs[1].shape;
    n = columns = scale.elements();
    rows = matrix_rows = n == 0 ? 0 : x.elements(0, x.rank() - scale.rank());
  }
  BELFRY_GPU int64_t At(int64_t row, int64_t i) const { return row * n + i; }
  BELFRY_GPU int64_t Column(int64_t, int64_t i) const { return i; }
  BELFRY_GPU int64_t Row(int64_t matrix_row, int64_t) const { return matrix_row; }
};

// Moments of x times `by`: 1, or a power of two if squares of x are out of range. inverse: 1 / sqrt(mean of
// (by x - mean)^2 + by^2 epsilon).
template <class C>
struct NormMoments {
  C by, mean, inverse;

  // The normalised element.
  BELFRY_GPU C operator()(C x) const { return (x * by - mean) * inverse; }
};

// The mean, and the mean square of what differs from it, of x times `by`.
template <class T, bool centred, class Layout, class Team>
BELFRY_GPU Sums<gpu::Compute<T>, 2> MeanAndSquare(const gpu::Stored<T>* x, const Layout& at, gpu::Compute<T> by,
                                                  int64_t row, const Team& team) {
  using C = gpu::Compute<T>;
  C mean = 0, squares = 0;
  if constexpr (centred) {
    C sum = 0;
    for (int64_t i = team.rank; i < at.n; i += team.size) sum += gpu::Widen(x[at.At(row, i)]) * by;
    mean = team.Sum(sum) / static_cast<C>(at.n);
  }
  for (int64_t i = team.rank; i < at.n; i += team.size) {
    const C difference = gpu::Widen(x[at.At(row, i)]) * by - mean;
    squares += difference * difference;
  }
  return {{mean, team.Sum(squares) / static_cast<C>(at.n)}};
}

template <class T, bool centred, class Layout, class Team>
BELFRY_GPU NormMoments<gpu::Compute<T>> NormMomentsOf(const gpu::Stored<T>* x, const Layout& at, double epsilon,
                                                      int64_t row, const Team& team) {
  using C = gpu::Compute<T>;
  const auto small = static_cast<C>(epsilon);
  Sums<C, 2> found = MeanAndSquare<T, centred>(x, at, C(1), row, team);
  const C divisor = found.of[1] + small;
  if (SquaresInRange(divisor)) return {C(1), found.of[0], 1 / std::sqrt(divisor)};
  C largest = std::sqrt(small);
  for (int64_t i = team.rank; i < at.n; i += team.size) {
    largest = LargerMagnitude(largest, static_cast<C>(gpu::Widen(x[at.At(row, i)])));
  }
  const C by = SquareScale(team.Reduce(largest, [](C a, C b) { return a < b ? b : a; }));
  found = MeanAndSquare<T, centred>(x, at, by, row, team);
  return {by, found.of[0], 1 / std::sqrt(found.of[1] + small * by * by)};
}

// y = (by x - mean) inverse scale + offset; without an offset unless centred.
template <class T, bool centred, class Layout>
struct NormalizeRow {
  using C = gpu::Compute<T>;
  Layout at;
  double epsilon;
  const gpu::Stored<T>*x, *scale, *offset;
  gpu::Stored<T>* y;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const NormMoments<C> moments = NormMomentsOf<T, centred>(x, at, epsilon, row, team);
    for (int64_t i = team.rank; i < at.n; i += team.size) {
      const int64_t from = at.At(row, i), column = at.Column(row, i);
      const C scaled = moments(gpu::Widen(x[from])) * gpu::Widen(scale[column]);
      if constexpr (centred) {
        y[from] = gpu::Narrow<T>(scaled + gpu::Widen(offset[column]));
      } else {
        y[from] = gpu::Narrow<T>(scaled);
      }
    }
  }
};

template <class T, bool centred, class Layout>
Kernel NormKernel(const KernelSpec& spec, const Layout& layout) {
  using S = gpu::Stored<T>;
  return Kernel{[layout, epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) {
    const S* offset = nullptr;
    if constexpr (centred) offset = at.input<S>(2);
    return ForEachRowOf(
        *at.stream, layout.rows, layout.n,
        NormalizeRow<T, centred, Layout>{layout, epsilon, at.input<S>(0), at.input<S>(1), offset, at.output<S>(0)});
  }};
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse, where mean(g) is 0 unless centred,
// and over the rows dscale = sum dy z and doffset = sum dy. A first launch computes the constants of each row, a second
// one all results on one pass down the columns, so dx may be x or dy.
template <class C>
struct NormFacts {
  NormMoments<C> moments;
  C g_mean, gz_mean;
};

template <class T, bool centred, class Layout>
struct FindNormFacts {
  using C = gpu::Compute<T>;
  Layout at;
  double epsilon;
  const gpu::Stored<T>*x, *scale, *dy;
  NormFacts<C>* facts;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const NormMoments<C> moments = NormMomentsOf<T, centred>(x, at, epsilon, row, team);
    Sums<C, 2> sum;
    for (int64_t i = team.rank; i < at.n; i += team.size) {
      const int64_t from = at.At(row, i);
      const C g = gpu::Widen(dy[from]) * gpu::Widen(scale[at.Column(row, i)]);
      sum.of[0] += g;
      sum.of[1] += g * moments(gpu::Widen(x[from]));
    }
    sum = team.Sum(sum);
    if (team.rank != 0) return;
    const C g_mean = centred ? sum.of[0] / static_cast<C>(at.n) : C(0);
    facts[row] = {moments, g_mean, sum.of[1] / static_cast<C>(at.n)};
  }
};

template <class T, class Layout>
struct NormGradient {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  using Partial = Sum;
  struct In {
    gpu::Stored<T> x, dy;
    int64_t row;
  };
  struct ScaleOf {
    C scale;
    int64_t column;
  };
  Layout at;
  const gpu::Stored<T>*x, *scale, *dy;
  const NormFacts<C>* facts;
  gpu::Stored<T>* dx;

  BELFRY_GPU ScaleOf Begin(int64_t c, int64_t) const { return {gpu::Widen(scale[c]), c}; }
  BELFRY_GPU In Read(int64_t from, int64_t row) const { return {x[from], dy[from], row}; }
  BELFRY_GPU void Take(const ScaleOf& of, const In& in, int64_t to, Sum& sum) const {
    const NormFacts<C> row = facts[at.Row(in.row, of.column)];
    const C z = row.moments(gpu::Widen(in.x)), slope = gpu::Widen(in.dy);
    sum.of[0] += slope * z;
    sum.of[1] += slope;
    dx[to] = gpu::Narrow<T>((slope * of.scale - row.g_mean - z * row.gz_mean) * (row.moments.inverse * row.moments.by));
  }
  BELFRY_GPU Sum Finish(const ScaleOf&, const Sum& sum, int64_t) const { return sum; }
};

template <class T>
struct StoreNormGradients {
  gpu::Stored<T>*dscale, *doffset;  // doffset: null if there is none

  BELFRY_GPU void operator()(int64_t c, const Sums<gpu::Compute<T>, 2>& sum) const {
    dscale[c] = gpu::Narrow<T>(sum.of[0]);
    if (doffset != nullptr) doffset[c] = gpu::Narrow<T>(sum.of[1]);
  }
};

// Inputs x, scale, dy; outputs dx, dscale and, if centred, doffset.
template <class T, bool centred, class Layout>
absl::StatusOr<Kernel> NormGradKernel(const KernelSpec& spec, const Layout& layout) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  const ColumnParts parts(layout.matrix_rows, layout.columns);
  ASSIGN_OR_RETURN(
      Kernel kernel,
      ColumnSumsKernel<Sum>(
          spec, parts,
          [layout, parts, epsilon = spec.attrs.Float("epsilon")](const KernelContext& at, Sum* partials,
                                                                 uint32_t* tickets) {
            const S *x = at.input<S>(0), *scale = at.input<S>(1), *dy = at.input<S>(2);
            auto* facts = reinterpret_cast<NormFacts<C>*>(partials + parts.partials());
            S* doffset = nullptr;
            if constexpr (centred) doffset = at.output<S>(2);
            RETURN_IF_ERROR(ForEachRowOf(*at.stream, layout.rows, layout.n,
                                         FindNormFacts<T, centred, Layout>{layout, epsilon, x, scale, dy, facts}));
            return GpuColumnSums(*at.stream, parts, partials, tickets,
                                 NormGradient<T, Layout>{layout, x, scale, dy, facts, at.output<S>(0)},
                                 StoreNormGradients<T>{at.output<S>(1), doffset});
          }));
  kernel.workspace_bytes += static_cast<size_t>(layout.rows) * sizeof(NormFacts<C>);
  return kernel;
}

// Adds the kernels of a norm, for all float dtypes, and of its gradient, "<name>Grad".
template <bool centred, class Layout>
void AddNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels(name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormKernel<T, centred>(spec, Layout(spec));
                     };
                   }));
  table.AddKernels(name + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<T, centred>(spec, Layout(spec));
                     };
                   }));
}

}  // namespace belfry::ops
