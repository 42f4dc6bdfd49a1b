// Layer norm, RMS norm and group norm, which differ in the elements that are normalised together. For .cu files.
//
// A Layout says where they are: `rows` sets of n elements. Element i of a row is at At(row, i) and has the scale and
// offset of column Column(row, i). In x as a matrix [matrix_rows, columns], element (r, c) belongs to Row(r, c).
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/graph/op_def.h"
#include "ops/common/square_range_impl.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/gpu/packed_rows_gpu_impl.h"

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
  // True if packs of so many columns are within a row.
  static constexpr bool Holds(int) { return true; }
  // The same in packs of `lanes` elements. REQUIRES: Divides(lanes).
  RowLayout InPacks(int lanes) const {
    RowLayout packs = *this;
    packs.n = packs.columns = n / lanes;
    return packs;
  }
  bool Divides(int lanes) const { return n % lanes == 0; }
};

// Moments of x times `by`: 1, or a power of two if squares of x are out of range. inverse: 1 / sqrt(mean of
// (by x - mean)^2 + by^2 epsilon).
template <class C>
struct NormMoments {
  C by, mean, inverse;

  // The normalised element.
  BELFRY_GPU C operator()(C x) const { return (x * by - mean) * inverse; }
};

// A thread's share of the elements of a row that a Layout describes, in packs.
template <class T, int lanes, class Layout, class Team>
struct SpreadRow {
  const gpu::Stored<T>* x;
  const Layout& at;
  int64_t row;
  const Team& team;

  template <class F>
  BELFRY_GPU void ForEach(const F& f) const {
    for (int64_t i = team.rank; i < at.n; i += team.size) {
      const PackOf<T, lanes> pack = PackAt<T, lanes>(x + at.At(row, i) * lanes);
      BELFRY_UNROLL
      for (int j = 0; j < lanes; ++j) f(gpu::Widen(pack.at[j]));
    }
  }
};

// The mean, and the mean square of what differs from it, of n elements times `by`. Elements is a SpreadRow or a
// KeptRow.
template <class C, bool centred, class Elements, class Team>
BELFRY_GPU Sums<C, 2> MeanAndSquare(const Elements& elements, int64_t n, C by, const Team& team) {
  C mean = 0, squares = 0;
  if constexpr (centred) {
    C sum = 0;
    elements.ForEach([&sum, by](C x) { sum += x * by; });
    mean = team.Sum(sum) / static_cast<C>(n);
  }
  elements.ForEach([&squares, by, mean](C x) {
    const C difference = x * by - mean;
    squares += difference * difference;
  });
  return {{mean, team.Sum(squares) / static_cast<C>(n)}};
}

template <class C, bool centred, class Elements, class Team>
BELFRY_GPU NormMoments<C> NormMomentsOf(const Elements& elements, int64_t n, double epsilon, const Team& team) {
  const auto small = static_cast<C>(epsilon);
  Sums<C, 2> found = MeanAndSquare<C, centred>(elements, n, C(1), team);
  const C divisor = found.of[1] + small;
  if (SquaresInRange(divisor)) return {C(1), found.of[0], 1 / std::sqrt(divisor)};
  C largest = std::sqrt(small);
  elements.ForEach([&largest](C x) { largest = LargerMagnitude(largest, x); });
  const C by = SquareScale(team.Reduce(largest, [](C a, C b) { return a < b ? b : a; }));
  found = MeanAndSquare<C, centred>(elements, n, by, team);
  return {by, found.of[0], 1 / std::sqrt(found.of[1] + small * by * by)};
}

// y = (by x - mean) inverse scale + offset; without an offset unless centred. With an addend, x is the sum of it and of
// `addend_to`, which is written first; a thread reads no element that another one wrote.
template <class T, bool centred, class Layout>
struct NormalizeRow {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  const S *scale, *offset;
  S* y;

  BELFRY_GPU static S Of(const NormMoments<C>& moments, S x, S scale, S offset) {
    const C scaled = moments(gpu::Widen(x)) * gpu::Widen(scale);
    return gpu::Narrow<T>(centred ? scaled + gpu::Widen(offset) : scaled);
  }
};

template <class T, bool centred, int lanes, class Layout>
struct NormalizeRow : NormOutput<T, centred> {
  using C = gpu::Compute<T>;
  Layout at;  // of packs
  double epsilon;
  const gpu::Stored<T>*x, *scale, *offset;
  gpu::Stored<T>* y;
  const gpu::Stored<T>*addend_to = nullptr, *addend = nullptr;
  gpu::Stored<T>* sum = nullptr;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    if (addend != nullptr) {
      for (int64_t i = team.rank; i < at.n; i += team.size) {
        const int64_t from = at.At(row, i);
        sum[from] = gpu::Narrow<T>(gpu::Widen(addend_to[from]) + gpu::Widen(addend[from]));
      }
    }
    const NormMoments<C> moments = NormMomentsOf<T, centred>(x, at, epsilon, row, team);
    for (int64_t i = team.rank; i < at.n; i += team.size) {
      const int64_t from = at.At(row, i) * lanes, column = at.Column(row, i) * lanes;
      const PackOf<T, lanes> scales = PackAt<T, lanes>(this->scale + column),
                             offsets = PackAt<T, lanes>(this->offset + column);
      PackOf<T, lanes> pack = PackAt<T, lanes>(x + from);
      BELFRY_UNROLL
      for (int j = 0; j < lanes; ++j) pack.at[j] = this->Of(moments, pack.at[j], scales.at[j], offsets.at[j]);
      StorePack<T, lanes>(this->y + from, pack);
    }
  }
};

// The same of adjacent elements.
template <class T, bool centred, int packs>
struct NormalizeKeptRow : NormOutput<T, centred> {
  using C = gpu::Compute<T>;
  using Row = KeptRow<T, packs>;
  int n;
  double epsilon;
  const gpu::Stored<T>* x;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const Row kept(x + row * n, n, team);
    const auto moments = NormMomentsOf<C, centred>(kept, n, epsilon, team);
    gpu::Stored<T>* const to = this->y + row * n;
    kept.ForEachPack([this, &moments, to](const WidePack<T>& in, int i) {
      const WidePack<T> scales = PackAt<T, Row::kLanes>(this->scale + i),
                        offsets = PackAt<T, Row::kLanes>(this->offset + i);
      WidePack<T> out;
      BELFRY_UNROLL
      for (int j = 0; j < Row::kLanes; ++j) out.at[j] = this->Of(moments, in.at[j], scales.at[j], offsets.at[j]);
      *reinterpret_cast<WidePack<T>*>(to + i) = out;
    });
  }
};

// The packs that a thread keeps of each row; 0 if rows are not kept.
template <class T>
int PacksToKeep(const RowLayout& layout) {
  return PacksToKeep<T>(layout.n);
}
template <class T, class Layout>
int PacksToKeep(const Layout&) {
  return 0;
}

template <class T, bool centred, class Layout>
Kernel NormKernel(const KernelSpec& spec, const Layout& layout) {
  using S = gpu::Stored<T>;
  return Kernel{[layout, packs = PacksToKeep<T>(layout),
                 epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) -> absl::Status {
    const S *x = at.input<S>(0), *scale = at.input<S>(1), *offset = centred ? at.input<S>(2) : scale;
    const NormOutput<T, centred> output{scale, offset, at.output<S>(0)};
    const bool aligned = AreAligned({x, scale, offset, output.y});
    return WithPacks<T>(
        aligned ? packs : 0,
        [&](auto kept) {
          constexpr int kPacks = decltype(kept)::value;
          return ForEachRowInTeams(
              *at.stream, layout.rows, layout.n,
              NormalizeKeptRow<T, centred, kPacks>{output, static_cast<int>(layout.n), epsilon, x});
        },
        [&] {
          return WithLanes<T>(aligned && layout.Divides(kWideLanes<T>), [&](auto lanes) {
            constexpr int kLanes = decltype(lanes)::value;
            return ForEachRowOf(*at.stream, layout.rows, layout.n,
                                NormalizeRow<T, centred, kLanes, Layout>{output, layout.InPacks(kLanes), epsilon, x});
          });
        });
  }};
}

// Inputs x, addend, scale and, if centred, offset; outputs the sum and its norm.
template <class T, bool centred>
Kernel AddNormKernel(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const KernelSpec norm{spec.name, spec.attrs, spec.inputs.subspan(1), spec.outputs, spec.device};
  return Kernel{[layout = RowLayout(norm), epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) {
    const S* offset = nullptr;
    if constexpr (centred) offset = at.input<S>(3);
    S* const sum = at.output<S>(0);
    return ForEachRowOf(*at.stream, layout.rows, layout.n,
                        NormalizeRow<T, centred, RowLayout>{layout, epsilon, sum, at.input<S>(2), offset,
                                                            at.output<S>(1), at.input<S>(0), at.input<S>(1), sum});
  }};
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse, where mean(g) is 0 unless centred,
// and over the rows dscale = sum dy z and doffset = sum dy. A first launch computes the constants of each row, a second
// one all results on one pass down the columns, so dx may be x, dy or what is added to it.
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

template <class T, class Layout, bool adds>
struct NormGradient {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  using Partial = Sum;
  struct In {
    gpu::Stored<T> x, dy, addend;
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
  const gpu::Stored<T>* addend;  // if `adds`

  BELFRY_GPU ScaleOf Begin(int64_t c, int64_t) const { return {gpu::Widen(scale[c]), c}; }
  BELFRY_GPU In Read(int64_t from, int64_t row) const {
    if constexpr (adds) return {x[from], dy[from], addend[from], row};
    return {x[from], dy[from], {}, row};
  }
  BELFRY_GPU void Take(const ScaleOf& of, const In& in, int64_t to, Sum& sum) const {
    const NormFacts<C> row = facts[at.Row(in.row, of.column)];
    const C z = row.moments(gpu::Widen(in.x)), slope = gpu::Widen(in.dy);
    sum.of[0] += slope * z;
    sum.of[1] += slope;
    C sloped = (slope * of.scale - row.g_mean - z * row.gz_mean) * (row.moments.inverse * row.moments.by);
    if constexpr (adds) sloped += gpu::Widen(in.addend);
    dx[to] = gpu::Narrow<T>(sloped);
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

// Inputs x, scale, dy and, if `adds`, what is added to dx; outputs dx, dscale and, if centred, doffset.
template <class T, bool centred, bool adds, class Layout>
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
                                 NormGradient<T, Layout, adds>{layout, x, scale, dy, facts, at.output<S>(0),
                                                               adds ? at.input<S>(3) : nullptr},
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
                       return NormGradKernel<T, centred, /*adds=*/false>(spec, Layout(spec));
                     };
                   }));
}

// Adds the kernels of "Add<name>" and "<name>AddGrad", which add something before and after.
template <bool centred>
void AddResidualNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels("Add" + name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return AddNormKernel<typename decltype(tag)::type, centred>(spec);
                     };
                   }));
  table.AddKernels(name + "AddGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<typename decltype(tag)::type, centred, /*adds=*/true>(spec,
                                                                                                   RowLayout(spec));
                     };
                   }));
}

}  // namespace belfry::ops
