// Kernels on matrices [rows, columns] that proceed down the columns: they read per-column values once for many rows, or
// sum the rows. A column here is `lanes` adjacent columns of a tensor that a thread takes together, a pack of 16 bytes
// or one: MaybePacked says which. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"
#include "ops/gpu/rows_gpu_impl.h"
#include "ops/gpu/tickets.h"

namespace belfry::ops {

// Division of a matrix among threads: each works on one column of one slice. Slice s has the rows s, s + slices, ...,
// so that neighbouring threads read neighbouring addresses however few columns there are.
struct ColumnSlices {
  int64_t rows, columns, slices, threads;
  Divider column_count;

  // Slices for kernels that write an element for each one they read.
  static ColumnSlices ForElements(int64_t rows, int64_t columns) {
    const int64_t rows_per_thread = rows * columns > (int64_t{1} << 21) ? 8 : 4;
    return ColumnSlices(rows, columns, (rows + rows_per_thread - 1) / rows_per_thread);
  }

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
    BELFRY_UNROLL
    for (int k = 0; k < kBatch; ++k) in[k] = f.Read(at + k * s.threads, row + k * s.slices);
    BELFRY_UNROLL
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

// Division of a matrix, or of each of several, among blocks, for sums down its columns. A group of blocks has `width`
// columns, a power of two, and a block one of `parts` parts of the rows: its slots of one column take the rows slot,
// slot + parts * slots, ... The order of summation depends on the sizes only.
struct ColumnParts {
  static constexpr int kSlots = 256;  // of a block: `width` columns, kSlots / width rows

  int64_t rows, columns, width, groups, parts;

  ColumnParts(int64_t r, int64_t c, int64_t matrices = 1) : rows(r), columns(c), width(1) {
    constexpr int64_t kMaxWidth = 64, kRowsOfSlot = 16, kMaxBlocks = 1024;
    while (width < std::min(c, kMaxWidth)) width *= 2;
    groups = (c + width - 1) / width;
    const int64_t most = std::max<int64_t>(kMaxBlocks / std::max<int64_t>(groups * matrices, 1), 1);
    parts = std::clamp<int64_t>(r / (kRowsOfSlot * (kSlots / width)), 1, most);
  }

  // The number of values that the blocks of a matrix leave for the last one.
  constexpr int64_t partials() const { return groups * parts * width; }
};

// The partial result of a block for one of the F::kLanes lanes of a column is an F::Partial: default-constructed for no
// rows, joined by operator+.
//   Column Begin(c, at)                        as above
//   In Read(at, row)
//   void Take(column, in, at, sum)             adds an element of each lane to an F::Sum
//   Partial Finish(column, sum, lane, rows)    of `rows` rows
// The partials of lane j are stored from slots + j * kSlots on.
template <class F>
BELFRY_GPU void WalkPart(const ColumnParts& p, int64_t column, int64_t first, int64_t step, const F& f,
                         typename F::Partial* slots) {
  constexpr int kBatch = 4;
  using Sum = typename F::Sum;
  if (column >= p.columns || first >= p.rows) {
    for (int j = 0; j < F::kLanes; ++j) slots[j * ColumnParts::kSlots] = {};
    return;
  }
  int64_t row = first, at = first * p.columns + column;
  const int64_t stride = step * p.columns;
  const auto kept = f.Begin(column, at);
  using In = decltype(f.Read(at, row));
  Sum sum[kBatch];
  for (; row + (kBatch - 1) * step < p.rows; row += kBatch * step, at += kBatch * stride) {
    In in[kBatch];
    BELFRY_UNROLL
    for (int k = 0; k < kBatch; ++k) in[k] = f.Read(at + k * stride, row + k * step);
    BELFRY_UNROLL
    for (int k = 0; k < kBatch; ++k) f.Take(kept, in[k], at + k * stride, sum[k]);
  }
  for (; row < p.rows; row += step, at += stride) f.Take(kept, f.Read(at, row), at, sum[0]);
  const Sum whole = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  const int64_t count = (p.rows - first + step - 1) / step;
  BELFRY_UNROLL
  for (int j = 0; j < F::kLanes; ++j) slots[j * ColumnParts::kSlots] = f.Finish(kept, whole, j, count);
}

// done(lane, c, value) with the values of the slots of each column of a group added, first halves to second halves.
template <int lanes, class Partial, class Done>
BELFRY_GPU void JoinSlots(const ColumnParts& p, const gpu::Team& team, Partial* slots, const Done& done) {
  constexpr int kSlots = ColumnParts::kSlots;
  const auto width = static_cast<int>(p.width);
  int bits = 8;  // of a slot
  static_assert(kSlots == 1 << 8);
  while (--bits >= 0 && 1 << bits >= width) {
    team.Wait();
    for (int i = team.rank; i < lanes << bits; i += team.size) {
      Partial* const slot = slots + (i >> bits) * kSlots + (i & ((1 << bits) - 1));
      *slot = *slot + slot[1 << bits];
    }
  }
  team.Wait();
  for (int lane = 0; lane < lanes; ++lane) {
    for (int c = team.rank; c < width; c += team.size) done(lane, c, slots[lane * kSlots + c]);
  }
}

// The work of a block: sums one part of a group, and writes the partials of its columns, p.width of each lane, to `to`.
template <class F>
BELFRY_GPU void SumPart(const ColumnParts& p, int64_t group, int64_t part, const gpu::Team& team, const F& f,
                        typename F::Partial* slots, typename F::Partial* to) {
  constexpr int kSlots = ColumnParts::kSlots;
  const int64_t rows = kSlots / p.width;
  for (int slot = team.rank; slot < kSlots; slot += team.size) {
    const int64_t row = slot / p.width;
    WalkPart(p, group * p.width + (slot - row * p.width), part * rows + row, p.parts * rows, f, slots + slot);
  }
  JoinSlots<F::kLanes>(p, team, slots,
                       [=](int lane, int c, const typename F::Partial& whole) { to[lane * p.width + c] = whole; });
}

// Calls store(c, partial) for every column c of the tensor with the F::Partial of all its rows, in one launch.
// `partials` has room for p.partials() of each lane, `tickets` is as ForEachBlockThenLast wants it, one for each of
// p.groups.
template <class F, class Store>
absl::Status GpuColumnSums(Stream& stream, const ColumnParts& p, typename F::Partial* partials, uint32_t* tickets,
                           const F& f, const Store& store) {
  using Partial = typename F::Partial;
  constexpr int kSlots = ColumnParts::kSlots, kLanes = F::kLanes;
  static_assert(sizeof(Partial) * kSlots * kLanes <= gpu::kMaxSharedBytes);
  return gpu::ForEachBlockThenLast(
      stream, p.groups, p.parts, sizeof(Partial) * kSlots * kLanes, tickets,
      [=] BELFRY_GPU(int64_t group, int64_t part, const gpu::Team& team, void* shared) {
        SumPart(p, group, part, team, f, static_cast<Partial*>(shared),
                partials + (group * p.parts + part) * p.width * kLanes);
      },
      [=] BELFRY_GPU(int64_t group, const gpu::Team& team, void* shared) {
        auto* const slots = static_cast<Partial*>(shared);
        const Partial* const from = partials + group * p.parts * p.width * kLanes;
        const int64_t rows = kSlots / p.width;
        for (int slot = team.rank; slot < kSlots; slot += team.size) {
          const int64_t row = slot / p.width, c = slot - row * p.width;
          for (int lane = 0; lane < kLanes; ++lane) {
            Partial sum{};
            for (int64_t part = row; part < p.parts; part += rows) {
              sum = sum + from[(part * kLanes + lane) * p.width + c];
            }
            slots[lane * kSlots + slot] = sum;
          }
        }
        JoinSlots<kLanes>(p, team, slots, [=](int lane, int c, const Partial& whole) {
          const int64_t column = group * p.width + c;
          if (column < p.columns) store(column * kLanes + lane, whole);
        });
      });
}

// A kernel that finds column sums and what it calls `run` with: room for partials, and tickets. Division: ColumnParts,
// or MaybePacked of them.
template <class Partial, class Division, class Run>
absl::StatusOr<Kernel> ColumnSumsKernel(const KernelSpec& spec, const Division& p, const Run& run) {
  ASSIGN_OR_RETURN(std::shared_ptr<uint32_t> tickets, TakeTickets(*spec.device, p.groups));
  return Kernel{[run, tickets = std::move(tickets)](const KernelContext& at) {
                  return run(at, static_cast<Partial*>(at.workspace), tickets.get());
                },
                static_cast<size_t>(p.partials()) * sizeof(Partial)};
}

// The division of a tensor's columns if each thread takes one, and if it takes packs of them.
template <class T, class Division>
struct MaybePacked {
  Division single, packed;
  bool whole;          // no column is left over by packs
  int64_t groups = 0;  // of both, for ColumnSumsKernel

  template <int lanes>
  const Division& Of() const {
    return lanes == 1 ? single : packed;
  }
  int64_t partials() const { return std::max(single.partials(), packed.partials() * kWideLanes<T>); }
};
template <class T>
MaybePacked<T, ColumnParts> PartsOf(int64_t rows, int64_t columns) {
  const ColumnParts single(rows, columns), packed(rows, columns / kWideLanes<T>);
  return {single, packed, AreWholePacks<T>(columns), std::max(single.groups, packed.groups)};
}
template <class T>
MaybePacked<T, ColumnSlices> SlicesOf(int64_t rows, int64_t columns) {
  return {ColumnSlices::ForElements(rows, columns), ColumnSlices::ForElements(rows, columns / kWideLanes<T>),
          AreWholePacks<T>(columns)};
}

// --- Mean and variance of each column ---

// The mean of some values, and the sum of their squared differences from it. Two are joined as in Chan et al.,
// "Algorithms for Computing the Sample Variance" (1983).
template <class C>
struct Moments {
  C mean = 0, squares = 0;
  int64_t count = 0;

  friend BELFRY_GPU Moments operator+(const Moments& a, const Moments& b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    Moments both;
    both.count = a.count + b.count;
    const C difference = b.mean - a.mean, share = static_cast<C>(b.count) / static_cast<C>(both.count);
    both.mean = a.mean + difference * share;
    both.squares = a.squares + b.squares + difference * difference * share * static_cast<C>(a.count);
    return both;
  }
};

// An element by which others may be shifted.
template <class S>
BELFRY_GPU auto FiniteOrZero(S x) {
  const auto value = gpu::Widen(x);
  return value - value == 0 ? value : decltype(value)(0);
}

// A slot's values are shifted by its first one, and means by the column's first value, which preserves the digits that
// a large mean would cost.
template <class T, int lanes>
struct ColumnMoments {
  using C = gpu::Compute<T>;
  using In = PackOf<T, lanes>;
  using Sum = PerLane<Sums<C, 2>, lanes>;
  using Partial = Moments<C>;
  static constexpr int kLanes = lanes;
  const gpu::Stored<T>* x;

  struct Shift {
    C first, base;
  };
  BELFRY_GPU PerLane<Shift, lanes> Begin(int64_t c, int64_t at) const {
    PerLane<Shift, lanes> shift;
    for (int j = 0; j < lanes; ++j) {
      shift.of[j] = {FiniteOrZero(x[at * lanes + j]), FiniteOrZero(x[c * lanes + j])};
    }
    return shift;
  }
  BELFRY_GPU In Read(int64_t at, int64_t) const { return PackAt<T, lanes>(x + at * lanes); }
  BELFRY_GPU void Take(const PerLane<Shift, lanes>& shift, const In& in, int64_t, Sum& sum) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const C difference = gpu::Widen(in.at[j]) - shift.of[j].first;
      sum.of[j].of[0] += difference;
      sum.of[j].of[1] += difference * difference;
    }
  }
  BELFRY_GPU Partial Finish(const PerLane<Shift, lanes>& shift, const Sum& sum, int j, int64_t count) const {
    const Sums<C, 2>& own = sum.of[j];
    const C mean = own.of[0] / static_cast<C>(count);
    return {(shift.of[j].first - shift.of[j].base) + mean, own.of[1] - own.of[0] * mean, count};
  }
};

// The moments of the columns of x [rows, columns]. Without rows both are 0.
template <class T, int lanes>
absl::Status GpuColumnMoments(Stream& stream, const ColumnParts& p, Moments<gpu::Compute<T>>* partials,
                              uint32_t* tickets, const gpu::Stored<T>* x, gpu::Compute<T>* mean,
                              gpu::Compute<T>* variance) {
  using C = gpu::Compute<T>;
  using Of = ColumnMoments<T, lanes>;
  return GpuColumnSums(stream, p, partials, tickets, Of{x}, [=] BELFRY_GPU(int64_t c, const Moments<C>& whole) {
    mean[c] = whole.count == 0 ? C(0) : FiniteOrZero(x[c]) + whole.mean;
    variance[c] = whole.count == 0 ? C(0) : whole.squares / static_cast<C>(whole.count);
  });
}

}  // namespace belfry::ops
