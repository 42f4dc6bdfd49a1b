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
  // True if packs of that many columns are within a row.
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

// y = (by x - mean) inverse scale + offset; without an offset unless centred. With an addend, x is where its sum with
// `addend_to` is written first; a thread reads no element that another one wrote.
template <class T, bool centred>
struct NormOutput {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  const S *scale, *offset;
  S* y;
  const S *addend_to = nullptr, *addend = nullptr;
  S* sum = nullptr;

  template <int lanes>
  BELFRY_GPU void StoreSum(int64_t at) const {
    PackOf<T, lanes> pack = PackAt<T, lanes>(addend_to + at);
    const PackOf<T, lanes> more = PackAt<T, lanes>(addend + at);
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) pack.at[j] = gpu::Narrow<T>(gpu::Widen(pack.at[j]) + gpu::Widen(more.at[j]));
    StorePack<T, lanes>(sum + at, pack);
  }

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
  const gpu::Stored<T>* x;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    if (this->addend != nullptr) {
      for (int64_t i = team.rank; i < at.n; i += team.size) this->template StoreSum<lanes>(at.At(row, i) * lanes);
    }
    const SpreadRow<T, lanes, Layout, Team> elements{x, at, row, team};
    const auto moments = NormMomentsOf<C, centred>(elements, at.n * lanes, epsilon, team);
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
    if (this->addend != nullptr) {
      for (int64_t i = team.rank * Row::kLanes; i < n; i += team.size * Row::kLanes) {
        this->template StoreSum<Row::kLanes>(row * n + i);
      }
    }
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

// Enqueues the norm of rows x. `packs`: PacksToKeep.
template <class T, bool centred, class Layout>
absl::Status RunNorm(Stream& stream, const Layout& layout, int packs, double epsilon, const gpu::Stored<T>* x,
                     const NormOutput<T, centred>& output) {
  const bool aligned =
      AreAligned({x, output.scale, output.offset, output.y, output.addend_to, output.addend, output.sum});
  return WithPacks<T>(
      aligned ? packs : 0,
      [&](auto kept) {
        constexpr int kPacks = decltype(kept)::value;
        return ForEachRowInTeams(stream, layout.rows, layout.n,
                                 NormalizeKeptRow<T, centred, kPacks>{output, static_cast<int>(layout.n), epsilon, x});
      },
      [&] {
        return WithLanes<T>(aligned && layout.Divides(kWideLanes<T>), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          return ForEachRowOf(stream, layout.rows, layout.n,
                              NormalizeRow<T, centred, kLanes, Layout>{output, layout.InPacks(kLanes), epsilon, x});
        });
      });
}

template <class T, bool centred, class Layout>
Kernel NormKernel(const KernelSpec& spec, const Layout& layout) {
  using S = gpu::Stored<T>;
  return Kernel{[layout, packs = PacksToKeep<T>(layout),
                 epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) -> absl::Status {
    const S *scale = at.input<S>(1), *offset = centred ? at.input<S>(2) : scale;
    return RunNorm<T, centred>(*at.stream, layout, packs, epsilon, at.input<S>(0), {scale, offset, at.output<S>(0)});
  }};
}

// Inputs x, addend, scale and, if centred, offset; outputs the sum and its norm.
template <class T, bool centred>
Kernel AddNormKernel(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const RowLayout layout({spec.name, spec.attrs, spec.inputs.subspan(1), spec.outputs, spec.device});
  return Kernel{[layout, packs = PacksToKeep<T>(layout),
                 epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) -> absl::Status {
    const S *scale = at.input<S>(2), *offset = centred ? at.input<S>(3) : scale;
    S* const sum = at.output<S>(0);
    return RunNorm<T, centred>(*at.stream, layout, packs, epsilon, sum,
                               {scale, offset, at.output<S>(1), at.input<S>(0), at.input<S>(1), sum});
  }};
}

}  // namespace belfry::ops
