// Recurrences over time on CPUs. Each thread takes some sequences through all steps, so that threads never wait for
// each other between steps. Internal.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/parallel.h"
#include "framework/graph/kernel.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/recurrent/unit_blocks_impl.h"

namespace belfry::ops::recurrent {

// --- Forward ---

template <class T>
struct ForwardOperands {
  const T *weights, *initial;  // `initial` [N, H] may be null: zeros
  const int32_t* lengths;      // [N], in [0, T]; may be null: T
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
//   void Skip(int64_t batch, int64_t step) const;            instead of a step past the end: zeros for the gradient
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
    int64_t longest = 0;
    for (int64_t i = 0; i < n; ++i) {
      longest = std::max(longest, p_.Steps(x.lengths, first + i));
      LoadRow(x.initial == nullptr ? nullptr : x.initial + (first + i) * p_.h, p_.h, before + i * row_);
      cell.Start(first + i, own_rows(i));
    }
    for (int64_t step = 0; step < longest; ++step) {
      const auto runs = [&](int64_t i) { return step < p_.Steps(x.lengths, first + i); };
      for (int64_t i = 0; i < n; ++i) {
        if (runs(i)) cell.Load(first + i, step, own_rows(i));
      }
      for (int64_t unit = 0; unit < p_.h; unit += kLanes<C>) {
        for (int64_t i = 0; i < n; i += kAtOnce) {
          RunBlock(unit, i, std::min(kAtOnce, n - i), cell, packed + unit * gates * p_.h, before, own, after, sums,
                   runs);
        }
      }
      // The next step reads what is stored, rounded to 16 bits if T has these.
      for (int64_t i = 0; i < n; ++i) {
        if (!runs(i)) continue;
        T* const y = x.y + p_.At(first + i, step);
        Store(after + i * row_, p_.h, y);
        if (kIsSixteenBit<T>) Load(y, p_.h, after + i * row_);
        cell.Save(first + i, step, own_rows(i));
      }
      std::swap(before, after);
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t step = p_.Steps(x.lengths, first + i); step < p_.t; ++step) {
        std::fill_n(x.y + p_.At(first + i, step), p_.h, T{});
        cell.Skip(first + i, step);
      }
      Store(before + i * row_, p_.h, x.last + (first + i) * p_.h);
      cell.Finish(first + i, own_rows(i));
    }
  }

  // One step of the sequences [begin, begin + n), for the units from `unit` on. The states of those for which `runs` is
  // false stay.
  template <class Runs>
  void RunBlock(int64_t unit, int64_t begin, int64_t n, const Cell& cell, const C* weights, const C* before, C* own,
                C* after, C* sums, const Runs& runs) const {
    Product<C, false>(n, gates, before + begin * row_, row_, p_.h, weights, kSums, sums, kSums);
    for (int64_t i = begin; i < begin + n; ++i) {
      const int64_t at = i * row_ + unit;
      if (!runs(i)) {
        std::copy_n(before + at, kLanes<C>, after + at);
        continue;
      }
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
  const int32_t* lengths;  // [N], in [0, T]; may be null: T
  T* dinitial;
};

// A cell has
//   void Start(int64_t batch, Compute<T>* state) const;   before the last step of a sequence
//   void Step(const UnitRange& at, Compute<T>* dh, Compute<T>* state, Compute<T>* slopes) const;
//   void Skip(int64_t batch, int64_t step) const;   instead of a step past the end: gradients of zero
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
    int64_t longest = 0;
    for (int64_t i = 0; i < rows; ++i) {
      longest = std::max(longest, p_.Steps(x.lengths, first + i));
      for (int64_t step = p_.Steps(x.lengths, first + i); step < p_.t; ++step) cell.Skip(first + i, step);
      Load(x.dlast + (first + i) * p_.h, p_.h, dh + i * row_);
      cell.Start(first + i, states + i * row_);
    }
    for (int64_t step = longest - 1; step >= 0; --step) {
      for (int64_t i = 0; i < rows; ++i) {
        if (step >= p_.Steps(x.lengths, first + i)) {
          std::fill_n(slopes + i * gates * p_.h, gates * p_.h, C(0));
          continue;
        }
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
