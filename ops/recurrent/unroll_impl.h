// Recurrences over time on CPUs. Each thread takes some sequences through all steps, so that threads never wait for
// each other between steps. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/parallel.h"
#include "framework/graph/kernel.h"
#include "ops/common/compute_impl.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/simd/product_impl.h"
#include "ops/simd/transpose_impl.h"

namespace belfry::ops::recurrent {

// Units come in blocks of one register. Rows of units are padded to whole blocks.
template <class C>
inline constexpr int64_t kLanes = simd::Vector<C>::kLanes;
template <class C>
int64_t UnitBlocks(int64_t h) {
  return (h + kLanes<C> - 1) / kLanes<C>;
}
template <class C>
int64_t PaddedUnits(int64_t h) {
  return UnitBlocks<C>(h) * kLanes<C>;
}

// Parts of registers, as arrays of kLanes elements.
template <class T>
void LoadUnits(const T* from, int64_t count, Compute<T>* to) {
  using C = Compute<T>;
  if (std::is_same_v<T, C> && count == kLanes<C>) {
    Load(from, kLanes<C>, to);
  } else {
    Load(from, count, to);
    std::fill(to + count, to + kLanes<C>, C(0));
  }
}
template <class T>
void StoreUnits(const Compute<T>* from, int64_t count, T* to) {
  using C = Compute<T>;
  if (std::is_same_v<T, C> && count == kLanes<C>) {
    Store(from, kLanes<C>, to);
  } else {
    Store(from, count, to);
  }
}

// The recurrent weights [H, gates H] in the order in which products read them. Forward: for each block of units, [H,
// gates, kLanes]. Backward, transposed: for each kBackWidth units, [gates H, kBackWidth].
template <class C>
inline constexpr int64_t kBackWidth = simd::kProductWidth* kLanes<C>;

template <class T, int gates>
void PackForward(const T* weights, int64_t h, Compute<T>* packed) {
  using C = Compute<T>;
  const int64_t panel = h * gates * kLanes<C>;
  ParallelFor(UnitBlocks<C>(h), static_cast<double>(panel), [=](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < h * gates; ++row) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t unit = block * kLanes<C>, count = std::min(kLanes<C>, h - unit);
        LoadUnits(weights + row * h + unit, count, packed + block * panel + row * kLanes<C>);
      }
    }
  });
}
template <class T, int gates>
void PackBackward(const T* weights, int64_t h, Compute<T>* packed) {
  using C = Compute<T>;
  constexpr int64_t kWidth = kBackWidth<C>;
  const int64_t columns = gates * h, panel = columns * kWidth;
  ParallelFor((h + kWidth - 1) / kWidth, static_cast<double>(panel), [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t units = std::min(kWidth, h - p * kWidth);
      const T* const from = weights + p * kWidth * columns;
      C* const to = packed + p * panel;
      if (units < kWidth) std::fill_n(to, panel, C(0));
      if constexpr (std::is_same_v<T, C>) {
        simd::TransposeBlock<C>(from, columns, units, columns, 1, to, kWidth);
      } else {
        for (int64_t i = 0; i < units; ++i) {
          for (int64_t j = 0; j < columns; ++j) to[j * kWidth + i] = static_cast<C>(from[i * columns + j]);
        }
      }
    }
  });
}

// c [m, vectors] = or += a [m, k] b [k, vectors].
template <class C, bool add>
void Product(int64_t m, int64_t vectors, const C* a, int64_t a_row, int64_t k, const C* b, int64_t b_row, C* c,
             int64_t c_row) {
  const simd::Product product{.m = m,
                              .k = k,
                              .vectors = vectors,
                              .a_row = a_row,
                              .b_row = b_row,
                              .b_vector = kLanes<C>,
                              .c_row = c_row,
                              .c_vector = kLanes<C>};
  add ? simd::MultiplyAndAdd(product, a, b, c) : simd::Multiply(product, a, b, c);
}

template <class T>
void LoadRow(const T* from, int64_t h, Compute<T>* to) {
  if (from == nullptr) {
    std::fill_n(to, h, Compute<T>(0));
  } else {
    Load(from, h, to);
  }
}

// --- Forward ---

template <class T>
struct ForwardOperands {
  const T *weights, *initial;  // `initial` [N, H] may be null: zeros
  T *y, *last;
};

// Rows of padded units.
template <class C>
struct Rows {
  C* first;
  int64_t row;  // from one row to the next
  C* operator[](int64_t i) const { return first + i * row; }
};

// A cell has rows of units of its own for each sequence, kRows of them, and
//   void Start(int64_t batch, Rows own) const;               before the first step of a sequence
//   void Load(int64_t batch, int64_t step, Rows own) const;  before a step: the projection
//   void Step(const C* sums, const C* before, Rows own, C* after) const;
//   void Save(int64_t batch, int64_t step, Rows own) const;  after a step: what the gradient needs
//   void Finish(int64_t batch, Rows own) const;              after the last step
// Step makes the hidden state `after` of `before` and of the products `sums` [gates, kLanes] of the hidden state with
// the weights, for a block of kLanes units. Rows of the operands are far apart in memory, often by a power of two,
// so their lines would evict each other if a step visited them block by block; they are copied whole, before and after.
template <class T, int gates, class Cell>
class Forward {
  using C = Compute<T>;

 public:
  explicit Forward(const Problem& p)
      : p_(p), row_(PaddedUnits<C>(p.h)), threads_(std::clamp<int64_t>(p.n, 1, ParallelThreads())) {}

  size_t workspace_bytes() const { return static_cast<size_t>(Packed() + threads_ * PerThread()) * sizeof(C); }

  void Run(const ForwardOperands<T>& x, const Cell& cell, void* workspace) const {
    C* const packed = static_cast<C*>(workspace);
    PackForward<T, gates>(x.weights, p_.h, packed);
    ParallelFor(threads_, p_.Flops(gates) / static_cast<double>(kLanes<C> * threads_), [&](int64_t from, int64_t to) {
      for (int64_t thread = from; thread < to; ++thread) {
        const int64_t begin = p_.n * thread / threads_, end = p_.n * (thread + 1) / threads_;
        RunSequences(begin, end - begin, x, cell, packed, packed + Packed() + thread * PerThread());
      }
    });
  }

 private:
  static constexpr int64_t kAtOnce = 48;  // sequences whose sums are in the cache at once
  static constexpr int64_t kSums = gates * kLanes<C>;

  int64_t Packed() const { return row_ * gates * p_.h; }
  int64_t PerThread() const { return (p_.n + threads_ - 1) / threads_ * (2 + Cell::kRows) * row_ + kAtOnce * kSums; }

  void RunSequences(int64_t first, int64_t n, const ForwardOperands<T>& x, const Cell& cell, const C* packed,
                    C* memory) const {
    C *before = memory, *after = before + n * row_, *const own = after + n * row_;
    C* const sums = own + n * Cell::kRows * row_;
    const auto own_rows = [&](int64_t i) { return Rows<C>{own + i * Cell::kRows * row_, row_}; };
    for (int64_t i = 0; i < n; ++i) {
      LoadRow(x.initial == nullptr ? nullptr : x.initial + (first + i) * p_.h, p_.h, before + i * row_);
      cell.Start(first + i, own_rows(i));
    }
    for (int64_t step = 0; step < p_.t; ++step) {
      for (int64_t i = 0; i < n; ++i) cell.Load(first + i, step, own_rows(i));
      for (int64_t unit = 0; unit < p_.h; unit += kLanes<C>) {
        for (int64_t i = 0; i < n; i += kAtOnce) {
          RunBlock(unit, i, std::min(kAtOnce, n - i), cell, packed + unit * gates * p_.h, before, own, after, sums);
        }
      }
      // The next step reads what is stored, rounded to 16 bits if T has these.
      for (int64_t i = 0; i < n; ++i) {
        T* const y = x.y + p_.At(first + i, step);
        Store(after + i * row_, p_.h, y);
        if (kIsSixteenBit<T>) Load(y, p_.h, after + i * row_);
        cell.Save(first + i, step, own_rows(i));
      }
      std::swap(before, after);
    }
    for (int64_t i = 0; i < n; ++i) {
      Store(before + i * row_, p_.h, x.last + (first + i) * p_.h);
      cell.Finish(first + i, own_rows(i));
    }
  }

  // One step of the sequences [begin, begin + n), for the units from `unit` on.
  void RunBlock(int64_t unit, int64_t begin, int64_t n, const Cell& cell, const C* weights, const C* before, C* own,
                C* after, C* sums) const {
    Product<C, false>(n, gates, before + begin * row_, row_, p_.h, weights, kSums, sums, kSums);
    for (int64_t i = begin; i < begin + n; ++i) {
      const int64_t at = i * row_ + unit;
      cell.Step(sums + (i - begin) * kSums, before + at, Rows<C>{own + i * Cell::kRows * row_ + unit, row_},
                after + at);
    }
  }

  Problem p_;
  int64_t row_, threads_;
};

// --- Backward ---

// The place of a cell's work: `count` units from `unit` on, at most kLanes, of one sequence at one step.
struct UnitRange {
  int64_t batch, step, unit, count;
};

template <class T>
struct BackwardOperands {
  const T *weights, *dy, *dlast;
  T* dinitial;
};

// A cell has
//   void Start(int64_t batch, Compute<T>* state) const;   before the last step of a sequence
//   void Step(const UnitRange& at, Compute<T>* dh, Compute<T>* state, Compute<T>* slopes) const;
//   void Finish(int64_t batch, const Compute<T>* state) const;   after its first step
// Step replaces the gradient `dh` of the hidden state by the part of it that reaches the state before without the
// weights, and gives the gradients `slopes` [gates, kLanes] of the products. A sequence's state is a row of the cell's
// own; Step sees its block of kLanes units.
template <class T, int gates>
class Backward {
  using C = Compute<T>;

 public:
  explicit Backward(const Problem& p)
      : p_(p), row_(PaddedUnits<C>(p.h)), threads_(std::clamp<int64_t>(p.n, 1, ParallelThreads())) {}

  size_t workspace_bytes() const { return static_cast<size_t>(Packed() + threads_ * PerThread()) * sizeof(C); }

  template <class Cell>
  void Run(const BackwardOperands<T>& x, const Cell& cell, void* workspace) const {
    C* const packed = static_cast<C*>(workspace);
    PackBackward<T, gates>(x.weights, p_.h, packed);
    ParallelFor(threads_, p_.Flops(gates) / static_cast<double>(kLanes<C> * threads_), [&](int64_t from, int64_t to) {
      for (int64_t thread = from; thread < to; ++thread) {
        const int64_t begin = p_.n * thread / threads_, end = p_.n * (thread + 1) / threads_;
        RunRows(begin, end - begin, x, cell, packed, packed + Packed() + thread * PerThread());
      }
    });
  }

 private:
  int64_t Packed() const { return (p_.h + kBackWidth<C> - 1) / kBackWidth<C> * kBackWidth<C> * gates * p_.h; }
  int64_t PerThread() const { return (p_.n + threads_ - 1) / threads_ * (2 * row_ + gates * p_.h); }

  template <class Cell>
  void RunRows(int64_t first, int64_t rows, const BackwardOperands<T>& x, const Cell& cell, const C* packed,
               C* memory) const {
    C *const dh = memory, *const states = dh + rows * row_, *const slopes = states + rows * row_;
    for (int64_t i = 0; i < rows; ++i) {
      Load(x.dlast + (first + i) * p_.h, p_.h, dh + i * row_);
      cell.Start(first + i, states + i * row_);
    }
    for (int64_t step = p_.t - 1; step >= 0; --step) {
      for (int64_t i = 0; i < rows; ++i) {
        const T* const dy = x.dy + p_.At(first + i, step);
        StepRow(first + i, step, dy, cell, dh + i * row_, states + i * row_, slopes + i * gates * p_.h);
      }
      for (int64_t unit = 0; unit < row_; unit += kBackWidth<C>) {
        const int64_t vectors = std::min(kBackWidth<C>, row_ - unit) / kLanes<C>, columns = gates * p_.h;
        Product<C, true>(rows, vectors, slopes, columns, columns, packed + unit * columns, kBackWidth<C>, dh + unit,
                         row_);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      Store(dh + i * row_, p_.h, x.dinitial + (first + i) * p_.h);
      cell.Finish(first + i, states + i * row_);
    }
  }

  template <class Cell>
  void StepRow(int64_t batch, int64_t step, const T* dy, const Cell& cell, C* dh, C* state, C* slopes) const {
    alignas(64) C of_block[gates * kLanes<C>], more[kLanes<C>], total[kLanes<C>];
    for (int64_t unit = 0; unit < p_.h; unit += kLanes<C>) {
      const int64_t count = std::min(kLanes<C>, p_.h - unit);
      LoadUnits(dy + unit, count, more);
      LoadUnits(dh + unit, count, total);
      for (int64_t j = 0; j < kLanes<C>; ++j) total[j] += more[j];
      cell.Step(UnitRange{batch, step, unit, count}, total, state + unit, of_block);
      std::copy_n(total, kLanes<C>, dh + unit);
      for (int gate = 0; gate < gates; ++gate) {
        StoreUnits(of_block + gate * kLanes<C>, count, slopes + gate * p_.h + unit);
      }
    }
  }

  Problem p_;
  int64_t row_, threads_;
};

}  // namespace belfry::ops::recurrent
