// Recurrences over time on CPUs. Internal.
//
// Many sequences are divided among threads: each takes its own through all steps and waits for no other. Of few
// sequences each thread computes some of the units at every step: it reads only its part of the weights, more of which
// stays in its caches, and the threads meet once a step. They wait for the slowest, so beside other programs sequences
// are divided instead. The division depends on the number of threads; the order of the terms of a sum does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "framework/base/machine/spinning.h"
#include "framework/base/machine/team.h"
#include "framework/base/parallel.h"
#include "framework/graph/kernel.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/recurrent/unit_blocks_impl.h"

namespace belfry::ops::recurrent {

// The work of a thread: some sequences, and of these some groups of units.
struct Share {
  int64_t first, sequences;
  int64_t first_group, last_group;
  int64_t first_own, last_own;  // the sequences that it alone prepares and finishes, with all units
  int thread;
  absl::FunctionRef<void()> meet;  // waits for the threads that have other units of these sequences
};

// How threads divide a recurrence whose units come in groups of `group` blocks.
template <class C>
struct Division {
  int64_t n = 0, group = 1, groups = 0;
  int threads = 1, of_sequences = 1;  // of all divisions at most, and of one of sequences
  bool units = false;                 // divides units, not sequences, unless the cores are shared
  double operations = 0;              // of all threads

  Division(const Problem& p, int64_t gates, int64_t group)
      : n(p.n), group(group), groups((UnitBlocks<C>(p.h) + group - 1) / group) {
    // Sequences of a thread that are worth reading all weights for.
    constexpr int64_t kEnoughRows = 8;
    // Multiply-adds of a thread in a step that take much longer than meeting does.
    constexpr int64_t kStep = 64 * 1024;
    const int64_t all = ParallelThreads(), rows = std::clamp<int64_t>(n, 1, all);
    const int64_t columns = std::min({all, groups, n * p.h * gates * p.h / kStep});
    units = n < kEnoughRows * all && columns > 1 && columns >= rows;
    of_sequences = static_cast<int>(rows);
    threads = static_cast<int>(units ? columns : rows);
    operations = p.Flops(gates) / static_cast<double>(kLanes<C>);
  }

  int64_t sequences() const { return units ? n : (n + threads - 1) / threads; }  // of a thread, at most

  void Run(absl::FunctionRef<void(const Share& share)> body) const {
    if (units && !CoresAreShared()) {
      RunTeam(threads, [&](const TeamMember& member) {
        const int64_t rank = member.rank(), size = member.size();
        body({0, n, groups * rank / size, groups * (rank + 1) / size, n * rank / size, n * (rank + 1) / size,
              member.rank(), [&] { member.Meet(); }});
      });
      return;
    }
    ParallelFor(of_sequences, operations / of_sequences, [&](int64_t from, int64_t to) {
      for (int64_t thread = from; thread < to; ++thread) {
        const int64_t begin = n * thread / of_sequences, end = n * (thread + 1) / of_sequences;
        body({begin, end - begin, 0, groups, begin, end, static_cast<int>(thread), [] {}});
      }
    });
  }
};

// The place of a cell's work: `count` units from `unit` on, at most kLanes, of one sequence at one step.
struct UnitRange {
  int64_t batch, step, unit, count;
};

// --- Forward ---

template <class T>
struct ForwardOperands {
  const T *weights, *initial;  // `initial` [N, H] may be null: zeros
  const int32_t* lengths;      // [N], in [0, T]; may be null: T
  T *y, *last;
};

// A cell has
//   Lanes Step(const UnitRange& at, const C* sums, Lanes before) const;
//   void Skip(int64_t batch, int64_t step) const;     instead of a step past the end: zeros for the gradient
//   void Finish(int64_t batch, int64_t steps) const;  after the last of a sequence's steps
// Step makes the hidden states after a step of those `before`, and of the products `sums` [gates, kLanes] of all hidden
// states with the weights, and keeps what the gradient needs.
template <class T, int gates, class Cell>
class Forward {
  using C = Compute<T>;

 public:
  explicit Forward(const Problem& p)
      : p_(p),
        row_(RowOf<C>(p.h)),
        panels_(p.h, gates * UnitBlocks<C>(p.h), p.n),
        division_(p, gates, panels_.width / std::gcd<int64_t>(panels_.width, gates)) {
    // Sums that stay in the L2 cache beside a panel.
    constexpr int64_t kSumsBytes = 128 * 1024;
    const int64_t group = division_.group * kSums * division_.sequences() * static_cast<int64_t>(sizeof(C));
    chunk_ = std::clamp<int64_t>(kSumsBytes / std::max<int64_t>(group, 1), 1, std::max<int64_t>(division_.groups, 1));
    sums_row_ = RowOf<C>(chunk_ * division_.group * kSums);
  }

  size_t workspace_bytes() const {
    return static_cast<size_t>(panels_.elements() + 2 * p_.n * row_ + division_.threads * Sums()) * sizeof(C);
  }

  void Run(const ForwardOperands<T>& x, const Cell& cell, void* workspace) const {
    C *const packed = static_cast<C*>(workspace), *const states = packed + panels_.elements();
    PackForward<T, gates>(x.weights, p_.h, panels_, packed);
    division_.Run([&](const Share& share) {
      RunShare(share, x, cell, packed, states, states + 2 * p_.n * row_ + share.thread * Sums());
    });
  }

 private:
  static constexpr int64_t kSums = gates * kLanes<C>;  // of a block of units

  int64_t Sums() const { return division_.sequences() * sums_row_; }

  void RunShare(const Share& share, const ForwardOperands<T>& x, const Cell& cell, const C* packed, C* states,
                C* sums) const {
    C *before = states, *after = states + p_.n * row_;
    for (int64_t i = share.first_own; i < share.last_own; ++i) {
      LoadRow(x.initial == nullptr ? nullptr : x.initial + i * p_.h, p_.h, before + i * row_);
    }
    int64_t longest = 0;
    for (int64_t i = share.first; i < share.first + share.sequences; ++i) {
      longest = std::max(longest, p_.Steps(x.lengths, i));
    }
    share.meet();
    const int64_t groups = share.last_group - share.first_group, chunks = (groups + chunk_ - 1) / chunk_;
    for (int64_t step = 0; step < longest; ++step) {
      for (int64_t i = 0; i < chunks; ++i) {
        // Every other step goes backwards, since the weights that were read last are still in the cache.
        const bool back = step % 2 != 0;
        const int64_t first = share.first_group + (back ? chunks - 1 - i : i) * chunk_;
        const int64_t last = std::min(first + chunk_, share.last_group);
        Multiply(share, first, last, back, packed, before, sums);
        for (int64_t j = 0; j < share.sequences; ++j) {
          const int64_t batch = share.first + j;
          StepUnits(batch, step, first, last, x, cell, sums + j * sums_row_, before + batch * row_,
                    after + batch * row_);
        }
      }
      share.meet();
      std::swap(before, after);
    }
    for (int64_t i = share.first_own; i < share.last_own; ++i) {
      const int64_t steps = p_.Steps(x.lengths, i);
      for (int64_t step = steps; step < p_.t; ++step) {
        std::fill_n(x.y + p_.At(i, step), p_.h, T{});
        cell.Skip(i, step);
      }
      Store(before + i * row_, p_.h, x.last + i * p_.h);
      cell.Finish(i, steps);
    }
  }

  // The sums of the units of groups [first, last).
  void Multiply(const Share& share, int64_t first, int64_t last, bool back, const C* packed, const C* before,
                C* sums) const {
    const int64_t of_group = division_.group * gates / panels_.width;
    const int64_t begin = first * of_group, end = std::min(last * of_group, panels_.count());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = back ? begin + end - 1 - i : i;
      panels_.template Multiply<false>(packed, panel, share.sequences, before + share.first * row_, row_,
                                       sums + (panel - begin) * panels_.columns(), sums_row_);
    }
  }

  void StepUnits(int64_t batch, int64_t step, int64_t first, int64_t last, const ForwardOperands<T>& x,
                 const Cell& cell, const C* sums, const C* before, C* after) const {
    const int64_t width = division_.group * kLanes<C>, begin = first * width, end = std::min(last * width, p_.h);
    if (step >= p_.Steps(x.lengths, batch)) {
      std::copy(before + begin, before + end, after + begin);
      return;
    }
    T* const y = x.y + p_.At(batch, step);
    for (int64_t unit = begin; unit < end; unit += kLanes<C>, sums += kSums) {
      const int64_t count = std::min(kLanes<C>, p_.h - unit);
      Lanes<C> hidden = cell.Step({batch, step, unit, count}, sums, simd::Vector<C>::Load(before + unit));
      StoreUnits<T>(hidden, count, y + unit);
      // The next step reads what is stored, rounded to 16 bits if T has these.
      if constexpr (kIsSixteenBit<T>) hidden = LoadUnits(y + unit, count);
      simd::Vector<C>::Store(hidden, after + unit);
    }
  }

  Problem p_;
  int64_t row_;
  Panels<C> panels_;
  Division<C> division_;
  int64_t chunk_, sums_row_;  // groups of units that are computed together, and a sequence's sums of them
};

// --- Backward ---

template <class T>
struct BackwardOperands {
  const T *weights, *dy, *dlast;
  const int32_t* lengths;  // [N], in [0, T]; may be null: T
  T* dinitial;
};

// A cell has
//   void Start(int64_t batch, C* state) const;   before the last step of a sequence
//   Lanes Step(const UnitRange& at, Lanes dh, C* state, Lanes* slopes) const;
//   void Skip(int64_t batch, int64_t step) const;   instead of a step past the end: gradients of zero
//   void Finish(int64_t batch, const C* state) const;   after its first step
// Step takes the gradient `dh` of the hidden states and returns the part of it that reaches the states before without
// passing through the weights. It stores the gradients of the products in `slopes` [gates]. A sequence's state is a row
// of the cell's own; Step sees its block of kLanes units.
template <class T, int gates>
class Backward {
  using C = Compute<T>;

 public:
  explicit Backward(const Problem& p)
      : p_(p),
        row_(RowOf<C>(p.h)),
        slopes_row_(RowOf<C>(gates * p.h)),
        panels_(gates * p.h, UnitBlocks<C>(p.h), p.n),
        division_(p, gates, panels_.width) {}

  size_t workspace_bytes() const {
    const int64_t slopes = division_.units ? 2 * slopes_row_ : slopes_row_;
    return static_cast<size_t>(panels_.elements() + p_.n * (2 * row_ + slopes)) * sizeof(C);
  }

  template <class Cell>
  void Run(const BackwardOperands<T>& x, const Cell& cell, void* workspace) const {
    C* const packed = static_cast<C*>(workspace);
    PackBackward<T, gates>(x.weights, p_.h, panels_, packed);
    division_.Run([&](const Share& share) { RunShare(share, x, cell, packed, packed + panels_.elements()); });
  }

 private:
  template <class Cell>
  void RunShare(const Share& share, const BackwardOperands<T>& x, const Cell& cell, const C* packed, C* memory) const {
    C *const dh = memory, *const states = dh + p_.n * row_;
    // Where threads share sequences, each step writes slopes while others may still read those of the last one.
    C *slopes = states + p_.n * row_, *other = division_.units ? slopes + p_.n * slopes_row_ : slopes;
    for (int64_t i = share.first_own; i < share.last_own; ++i) {
      for (int64_t step = p_.Steps(x.lengths, i); step < p_.t; ++step) cell.Skip(i, step);
      LoadRow(x.dlast + i * p_.h, p_.h, dh + i * row_);
      cell.Start(i, states + i * row_);
    }
    int64_t longest = 0;
    for (int64_t i = share.first; i < share.first + share.sequences; ++i) {
      longest = std::max(longest, p_.Steps(x.lengths, i));
    }
    share.meet();
    for (int64_t step = longest - 1; step >= 0; --step) {
      for (int64_t i = share.first; i < share.first + share.sequences; ++i) {
        StepUnits(i, step, share, x, cell, dh + i * row_, states + i * row_, slopes + i * slopes_row_);
      }
      share.meet();
      for (int64_t i = share.first_group; i < share.last_group; ++i) {
        const int64_t panel = step % 2 != 0 ? share.first_group + share.last_group - 1 - i : i;
        panels_.template Multiply<true>(packed, panel, share.sequences, slopes + share.first * slopes_row_, slopes_row_,
                                        dh + share.first * row_ + panel * panels_.columns(), row_);
      }
      std::swap(slopes, other);
    }
    share.meet();
    for (int64_t i = share.first_own; i < share.last_own; ++i) {
      Store(dh + i * row_, p_.h, x.dinitial + i * p_.h);
      cell.Finish(i, states + i * row_);
    }
  }

  template <class Cell>
  void StepUnits(int64_t batch, int64_t step, const Share& share, const BackwardOperands<T>& x, const Cell& cell, C* dh,
                 C* state, C* slopes) const {
    const int64_t width = panels_.columns();
    const int64_t begin = share.first_group * width, end = std::min(share.last_group * width, p_.h);
    if (step >= p_.Steps(x.lengths, batch)) {
      for (int gate = 0; gate < gates; ++gate)
        std::fill(slopes + gate * p_.h + begin, slopes + gate * p_.h + end, C(0));
      return;
    }
    const T* const dy = x.dy + p_.At(batch, step);
    for (int64_t unit = begin; unit < end; unit += kLanes<C>) {
      const int64_t count = std::min(kLanes<C>, p_.h - unit);
      Lanes<C> of_block[gates];
      const Lanes<C> total = simd::Vector<C>::Load(dh + unit) + LoadUnits(dy + unit, count);
      simd::Vector<C>::Store(cell.Step({batch, step, unit, count}, total, state + unit, of_block), dh + unit);
      for (int gate = 0; gate < gates; ++gate) StoreUnits<C>(of_block[gate], count, slopes + gate * p_.h + unit);
    }
  }

  Problem p_;
  int64_t row_, slopes_row_;
  Panels<C> panels_;
  Division<C> division_;
};

}  // namespace belfry::ops::recurrent
