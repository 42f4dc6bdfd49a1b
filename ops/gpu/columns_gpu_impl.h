// Kernels on matrices [rows, columns] that proceed down the columns: they read per-column values once for many rows, or
// sum the rows. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/rows_gpu_impl.h"

namespace belfry::ops {

// Division of a matrix among threads: each works on one column of one slice. Slice s has the rows s, s + slices, ...,
// so that neighbouring threads read neighbouring addresses however few columns there are. The slices, and so the order
// of summation, depend on the sizes only.
struct ColumnSlices {
  int64_t rows, columns, slices, threads;
  Divider column_count;

  // ForElements is for kernels that write an element for each one they read. ForSums keeps the number of slices low.
  static ColumnSlices ForElements(int64_t rows, int64_t columns) {
    const int64_t rows_per_thread = rows * columns > (int64_t{1} << 21) ? 8 : 4;
    return ColumnSlices(rows, columns, (rows + rows_per_thread - 1) / rows_per_thread);
  }
  static ColumnSlices ForSums(int64_t rows, int64_t columns) {
    constexpr int64_t kRowsPerThread = 16, kMaxThreads = int64_t{1} << 18;
    return ColumnSlices(rows, columns, std::min(rows / kRowsPerThread, kMaxThreads / std::max<int64_t>(columns, 1)));
  }

  BELFRY_GPU int64_t RowsOf(int64_t slice) const { return rows / slices + (slice < rows % slices ? 1 : 0); }

 private:
  ColumnSlices(int64_t r, int64_t c, int64_t s)
      : rows(r), columns(c), slices(std::max<int64_t>(s, 1)), threads(slices * c) {
    if (c > 0) column_count = Divider(c, threads);
  }
};

// The work of thread i. The functor f has
//   Column Begin(c, at)                  returns the values kept for column c, whose first element, if any, is at `at`
//   In Read(at, row)                     reads the operands of the element at `at`
//   void Take(column, in, at, sum)       processes it; several sums are accumulated side by side
// Several elements are read before the first is written, to keep more loads in flight.
template <class Sum, class Column, class F>
BELFRY_GPU Sum WalkColumn(const ColumnSlices& s, int64_t i, int64_t slice, const Column& column, const F& f) {
  constexpr int kBatch = 4;
  using In = decltype(f.Read(i, slice));
  Sum sum[kBatch];
  int64_t row = slice, at = i;
  for (; row + (kBatch - 1) * s.slices < s.rows; row += kBatch * s.slices, at += kBatch * s.threads) {
    In in[kBatch];
    for (int k = 0; k < kBatch; ++k) in[k] = f.Read(at + k * s.threads, row + k * s.slices);
    for (int k = 0; k < kBatch; ++k) f.Take(column, in[k], at + k * s.threads, sum[k]);
  }
  for (; row < s.rows; row += s.slices, at += s.threads) f.Take(column, f.Read(at, row), at, sum[0]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

struct NoSum {
  friend constexpr NoSum operator+(NoSum, NoSum) { return {}; }
};

template <class F>
absl::Status ForEachElementByColumn(Stream& stream, const ColumnSlices& s, const F& f) {
  return gpu::ForEach(stream, s.threads, [=] BELFRY_GPU(int64_t i) {
    const int64_t slice = s.column_count.Quotient(i);
    WalkColumn<NoSum>(s, i, slice, f.Begin(i - slice * s.columns, i), f);
  });
}

// The same, followed by partials[k threads + i] = value k of f.Finish(column, sum, rows of the slice). F::Sum is
// Sums<C, n>.
template <class C, class F>
absl::Status SumSlices(Stream& stream, const ColumnSlices& s, C* partials, const F& f) {
  return gpu::ForEach(stream, s.threads, [=] BELFRY_GPU(int64_t i) {
    using Sum = typename F::Sum;
    const int64_t slice = s.column_count.Quotient(i);
    const auto column = f.Begin(i - slice * s.columns, i);
    const Sum sum = f.Finish(column, WalkColumn<Sum>(s, i, slice, column, f), s.RowsOf(slice));
    for (int k = 0; k < static_cast<int>(sizeof(Sum) / sizeof(C)); ++k) partials[k * s.threads + i] = sum.of[k];
  });
}

// Calls body(column, team) for every column, to combine its partial sums.
template <class Body>
absl::Status ForEachColumn(Stream& stream, const ColumnSlices& s, const Body& body) {
  return ForEachRowOf(stream, s.columns, s.slices, body);
}

// The sums of a column over all slices.
template <class C, int n, class Team>
BELFRY_GPU Sums<C, n> SumOfSlices(const ColumnSlices& s, const C* partials, int64_t column, const Team& team) {
  constexpr int kBatch = 4;
  Sums<C, n> sum[kBatch];
  const auto add = [&](Sums<C, n>& to, int64_t slice) {
    for (int k = 0; k < n; ++k) to.of[k] += partials[k * s.threads + slice * s.columns + column];
  };
  int64_t slice = team.rank;
  for (; slice + (kBatch - 1) * team.size < s.slices; slice += kBatch * team.size) {
    for (int k = 0; k < kBatch; ++k) add(sum[k], slice + k * team.size);
  }
  for (; slice < s.slices; slice += team.size) add(sum[0], slice);
  return team.Sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class C, int n, class Store>
struct CombineSums {
  ColumnSlices s;
  const C* partials;
  Store store;

  template <class Team>
  BELFRY_GPU void operator()(int64_t c, const Team& team) const {
    const Sums<C, n> sum = SumOfSlices<C, n>(s, partials, c, team);
    if (team.rank == 0) store(c, sum);
  }
};

// Calls store(c, sum) for every column c with the F::Sum over all its rows, in two launches. `partials` has
// ColumnSumsBytes bytes.
template <class F>
size_t ColumnSumsBytes(const ColumnSlices& s) {
  return static_cast<size_t>(s.threads) * sizeof(typename F::Sum);
}
template <class C, class F, class Store>
absl::Status GpuColumnSums(Stream& stream, const ColumnSlices& s, C* partials, const F& f, const Store& store) {
  constexpr int n = sizeof(typename F::Sum) / sizeof(C);
  RETURN_IF_ERROR(SumSlices(stream, s, partials, f));
  return ForEachColumn(stream, s, CombineSums<C, n, Store>{s, partials, store});
}

// --- Mean and variance of each column ---

template <class T>
struct SliceMoments {
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  const gpu::Stored<T>* x;
  int64_t elements;

  // All values are shifted by the thread's first one, which preserves the digits that a large mean would cost.
  BELFRY_GPU C Begin(int64_t, int64_t at) const {
    const C first = at < elements ? gpu::Widen(x[at]) : C(0);
    return first - first == 0 ? first : C(0);
  }
  BELFRY_GPU gpu::Stored<T> Read(int64_t at, int64_t) const { return x[at]; }
  BELFRY_GPU void Take(C first, gpu::Stored<T> in, int64_t, Sum& sum) const {
    const C difference = gpu::Widen(in) - first;
    sum.of[0] += difference;
    sum.of[1] += difference * difference;
  }
  // The mean, and the sum of squared differences from it.
  BELFRY_GPU Sum Finish(C first, Sum sum, int64_t count) const {
    const C mean = count == 0 ? C(0) : sum.of[0] / static_cast<C>(count);
    sum.of[1] -= sum.of[0] * mean;
    sum.of[0] = first + mean;
    return sum;
  }
};

template <class C>
struct CombineMoments {
  ColumnSlices s;
  const C* partials;
  C *mean, *variance;

  template <class Team>
  BELFRY_GPU void operator()(int64_t c, const Team& team) const {
    const C share = s.rows == 0 ? C(0) : 1 / static_cast<C>(s.rows);
    const C near = partials[c] - partials[c] == 0 ? partials[c] : C(0);
    C total = 0;
    for (int64_t slice = team.rank; slice < s.slices; slice += team.size) {
      total += static_cast<C>(s.RowsOf(slice)) * (partials[slice * s.columns + c] - near);
    }
    const C center = near + team.Sum(total) * share;
    C squares = 0;
    for (int64_t slice = team.rank; slice < s.slices; slice += team.size) {
      const int64_t at = slice * s.columns + c;
      const C difference = partials[at] - center;
      squares += partials[s.threads + at] + static_cast<C>(s.RowsOf(slice)) * difference * difference;
    }
    squares = team.Sum(squares);
    if (team.rank != 0) return;
    mean[c] = center;
    variance[c] = squares * share;
  }
};

// The moments of the columns of x [rows, columns], in two launches. `workspace` has ColumnMomentsBytes bytes. Without
// rows both are 0.
template <class T>
size_t ColumnMomentsBytes(const ColumnSlices& s) {
  return static_cast<size_t>(2 * s.threads) * sizeof(gpu::Compute<T>);
}
template <class T>
absl::Status GpuColumnMoments(Stream& stream, const ColumnSlices& s, void* workspace, const gpu::Stored<T>* x,
                              gpu::Compute<T>* mean, gpu::Compute<T>* variance) {
  using C = gpu::Compute<T>;
  C* partials = static_cast<C*>(workspace);
  RETURN_IF_ERROR(SumSlices(stream, s, partials, SliceMoments<T>{x, s.rows * s.columns}));
  return ForEachColumn(stream, s, CombineMoments<C>{s, partials, mean, variance});
}

}  // namespace belfry::ops
