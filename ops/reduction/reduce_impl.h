// Reductions over any axes on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"
#include "framework/graph/op_def.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/math.h"
#include "ops/reduction/reduce_plan_impl.h"

namespace belfry::ops {

// A reduction R of elements of type T has
//   Lane: what neighbouring elements are combined in; Acc: what lanes are combined in; both value types
//   Lane Start(), Lane Step(Lane, Compute<T>), Acc Begin(), Acc Merge(Acc, Lane), Acc Join(Acc, Acc), Out Finish(Acc)
// At most kSteps elements meet in one lane before it is merged, so that sums of floats stay exact to a few ulps. The
// order depends on the shapes only, never on threads.
inline constexpr int64_t kLanes = 64, kSteps = 32, kColumns = 128;

// What a run of neighbours has come to: `acc`, and `steps` steps of the lanes that were not merged into it yet.
template <class R>
struct RunState {
  typename R::Acc acc;
  int64_t steps = 0;
  typename R::Lane lanes[kLanes];

  explicit RunState(const R& r) : acc(r.Begin()) {}

  void Flush(const R& r) {
    for (int64_t j = 0; steps > 0 && j < kLanes; ++j) acc = r.Merge(acc, lanes[j]);
    steps = 0;
  }

  // Takes n more neighbours; a multiple of kLanes, unless they are the last.
  template <class T>
  void Add(const R& r, const T* x, int64_t n) {
    Compute<T> buffer[kIsSixteenBit<T> ? kLanes * kSteps : 1];
    while (n >= kLanes) {
      const int64_t more = std::min(kSteps - steps, n / kLanes);
      const Compute<T>* in = Widened(x, buffer, more * kLanes);
      typename R::Lane local[kLanes];
      for (int64_t j = 0; j < kLanes; ++j) local[j] = steps == 0 ? r.Start() : lanes[j];
      for (int64_t i = 0; i < more; ++i) {
        for (int64_t j = 0; j < kLanes; ++j) local[j] = r.Step(local[j], in[i * kLanes + j]);
      }
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = local[j];
      steps += more;
      if (steps == kSteps) Flush(r);
      x += more * kLanes;
      n -= more * kLanes;
    }
    if (n > 0) {
      Flush(r);
      const Compute<T>* in = Widened(x, buffer, n);
      typename R::Lane lane = r.Start();
      for (int64_t i = 0; i < n; ++i) lane = r.Step(lane, in[i]);
      acc = r.Merge(acc, lane);
    }
  }
};

// Reduces n neighbours.
template <class R, class T>
typename R::Acc ReduceRun(const R& r, const T* x, int64_t n) {
  RunState<R> state(r);
  state.Add(r, x, n);
  state.Flush(r);
  return state.acc;
}

// The same for n neighbouring columns, whose lanes and accumulators lie elsewhere.
template <class R>
struct ColumnsState {
  typename R::Acc* acc;
  typename R::Lane* lanes;
  int64_t n;

  void Begin(const R& r) const { std::fill_n(acc, n, r.Begin()); }
  void Flush(const R& r, int64_t& steps) const {
    for (int64_t j = 0; steps > 0 && j < n; ++j) acc[j] = r.Merge(acc[j], lanes[j]);
    steps = 0;
  }

  // Takes rows [begin, end) after `steps` rows that were not merged yet.
  template <class T>
  void Add(const R& r, const T* x, const Offsets& rows, int64_t begin, int64_t end, int64_t& steps) const {
    Compute<T> buffer[kIsSixteenBit<T> ? kColumns : 1];
    while (begin < end) {
      const int64_t until = std::min(end, begin + kSteps - steps);
      for (int64_t column = 0; column < n; column += kColumns) {
        const int64_t width = std::min(kColumns, n - column);
        typename R::Lane local[kColumns];
        for (int64_t j = 0; j < width; ++j) local[j] = steps == 0 ? r.Start() : lanes[column + j];
        for (int64_t row = begin; row < until; ++row) {
          const Compute<T>* in = Widened(x + rows[row] + column, buffer, width);
          for (int64_t j = 0; j < width; ++j) local[j] = r.Step(local[j], in[j]);
        }
        for (int64_t j = 0; j < width; ++j) lanes[column + j] = local[j];
      }
      steps += until - begin;
      begin = until;
      if (steps == kSteps) Flush(r, steps);
    }
  }
};

// Reduces rows [begin, end) of n <= kColumns neighbours into acc[0, n).
template <class R, class T>
void ReduceColumns(const R& r, const T* x, const Offsets& rows, int64_t begin, int64_t end, int64_t n,
                   typename R::Acc* acc) {
  typename R::Lane lanes[kColumns];
  const ColumnsState<R> state{acc, lanes, n};
  int64_t steps = 0;
  state.Begin(r);
  state.Add(r, x, rows, begin, end, steps);
  state.Flush(r, steps);
}

// Reduces part `part` of `parts` of every output's elements, for the items [begin, end): an item is an output when runs
// are reduced, else up to kColumns neighbouring outputs.
template <class R, class T>
void ReduceItem(const R& r, const ReducePlan& plan, const T* x, int64_t item, int64_t part, int64_t parts,
                typename R::Acc* acc) {
  if (plan.columns == 1) {
    x += plan.kept[item];
    *acc = r.Begin();
    const auto slice = [=](int64_t n, int64_t p) { return n * p / parts; };
    if (plan.reduced.count == 1) {
      const int64_t begin = slice(plan.run, part);
      *acc = ReduceRun(r, x + plan.reduced[0] + begin, slice(plan.run, part + 1) - begin);
      return;
    }
    for (int64_t i = slice(plan.reduced.count, part); i < slice(plan.reduced.count, part + 1); ++i) {
      *acc = r.Join(*acc, ReduceRun(r, x + plan.reduced[i], plan.run));
    }
    return;
  }
  const int64_t blocks = (plan.columns + kColumns - 1) / kColumns, column = item % blocks * kColumns;
  ReduceColumns(r, x + plan.kept[item / blocks] + column, plan.reduced, plan.reduced.count * part / parts,
                plan.reduced.count * (part + 1) / parts, std::min(kColumns, plan.columns - column), acc);
}

// Output 0 = the reduction of input 0 by `plan`, of any kind, with at least one output.
template <class T, class Out, class R>
Kernel WholeReduceKernel(ReducePlan plan, R r) {
  const int64_t width = plan.columns == 1 ? 1 : std::min(kColumns, plan.columns);
  const int64_t items = plan.kept.count * ((plan.columns + width - 1) / width);
  const int64_t item_work = plan.reduced_elements() * width;
  // A few long reductions are cut into parts, by the shapes alone, so that several threads can share them.
  const int64_t parts = items >= 16 ? 1 : std::max<int64_t>(1, std::min<int64_t>(16, item_work / (64 * 1024)));
  using Acc = typename R::Acc;
  Kernel kernel;
  kernel.workspace_bytes = parts == 1 ? 0 : sizeof(Acc) * static_cast<size_t>(items * parts * width);
  kernel.run = [plan = std::make_shared<const ReducePlan>(std::move(plan)), r, width, items, item_work,
                parts](const KernelContext& context) {
    const T* x = context.input<T>(0);
    Out* y = context.output<Out>(0);
    Acc* partial = static_cast<Acc*>(context.workspace);
    const int64_t blocks = items / std::max<int64_t>(1, plan->kept.count);
    const auto store = [&](int64_t item, const Acc* acc) {
      const int64_t column = item % blocks * width, n = std::min(width, plan->columns - column);
      Out* out = y + item / blocks * plan->columns + column;
      for (int64_t j = 0; j < n; ++j) out[j] = static_cast<Out>(r.Finish(acc[j]));
    };
    ParallelFor(items * parts, static_cast<double>(item_work) / static_cast<double>(parts),
                [&](int64_t begin, int64_t end) {
                  Acc acc[kColumns];
                  for (int64_t i = begin; i < end; ++i) {
                    ReduceItem(r, *plan, x, i / parts, i % parts, parts, parts == 1 ? acc : partial + i * width);
                    if (parts == 1) store(i, acc);
                  }
                });
    for (int64_t item = 0; parts > 1 && item < items; ++item) {
      Acc* first = partial + item * parts * width;
      const int64_t n = std::min(width, plan->columns - item % blocks * width);
      for (int64_t p = 1; p < parts; ++p) {
        for (int64_t j = 0; j < n; ++j) first[j] = r.Join(first[j], first[p * width + j]);
      }
      store(item, first);
    }
    return absl::OkStatus();
  };
  return kernel;
}

// Attributes "axes" (all listed) and "keep_dims" of a reduction of x.
Attrs ReduceAttrs(const Axes& axes, Output x, bool keep_dims);

}  // namespace belfry::ops
