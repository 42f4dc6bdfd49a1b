// Reductions over any axes on CPUs.
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

// A reduction R of elements of type T has the value types Lane, which combines neighbouring elements, and Acc, which
// combines lanes, and the functions
//   Lane Start(), Lane Step(Lane, Compute<T>), Acc Begin(), Acc Merge(Acc, Lane), Acc Join(Acc, Acc), Out Finish(Acc)
//
// At most kSteps elements are combined in a lane before it is merged, so that sums of floats, whose Acc is double, stay
// accurate to a few ulps. The order of all operations depends only on the shapes, never on threads.
inline constexpr int64_t kLanes = 64, kSteps = 32, kColumns = 128;

// The state of reducing a run of adjacent elements: `acc`, and `steps` steps of the lanes that are not merged into it
// yet.
//
// Invariant: element i of the run goes to lane i % kLanes, and lanes are merged after every kSteps steps, counted from
// the start of the run. So the result does not depend on how the run is cut into calls of Add, which lets a reduction
// be fed piece by piece. kLanes independent lanes keep the vector units busy despite the latency of each step.
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

  // Adds n more elements; n must be a multiple of kLanes, except in the last call.
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
    // The rest of the run, shorter than a row of lanes, gets a lane of its own, after those of the whole rows.
    if (n > 0) {
      Flush(r);
      const Compute<T>* in = Widened(x, buffer, n);
      typename R::Lane lane = r.Start();
      for (int64_t i = 0; i < n; ++i) lane = r.Step(lane, in[i]);
      acc = r.Merge(acc, lane);
    }
  }
};

// Reduces n adjacent elements.
template <class R, class T>
typename R::Acc ReduceRun(const R& r, const T* x, int64_t n) {
  RunState<R> state(r);
  state.Add(r, x, n);
  state.Flush(r);
  return state.acc;
}

// The same for n adjacent columns, with lanes and accumulators in the caller's memory. Every column has one lane, so
// rows may be cut anywhere.
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

  // Adds rows [begin, end), after `steps` rows that are not merged yet.
  template <class T>
  void Add(const R& r, const T* x, const Offsets& rows, int64_t begin, int64_t end, int64_t& steps) const {
    Compute<T> buffer[kIsSixteenBit<T> ? kColumns : 1];
    while (begin < end) {
      const int64_t until = std::min(end, begin + kSteps - steps);
      // A block of columns keeps its lanes in a local array, which can stay in registers, up to the next merge.
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

// Reduces rows [begin, end) of n <= kColumns adjacent elements into acc[0, n).
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

// Reduces part `part` of `parts` of the elements of one item. An item is one output if runs are reduced, otherwise up
// to kColumns adjacent outputs. The parts of an item are disjoint and cover it, because part p begins at n p / parts,
// where part p - 1 ends.
template <class R, class T>
void ReduceItem(const R& r, const ReducePlan& plan, const T* x, int64_t item, int64_t part, int64_t parts,
                typename R::Acc* acc) {
  // An empty tensor has a null pointer, which no offset may be added to.
  const auto at = [&](int64_t offset) { return plan.reduced_elements() == 0 ? x : x + offset; };
  if (plan.columns == 1) {
    x = at(plan.kept[item]);
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
  ReduceColumns(r, at(plan.kept[item / blocks] + column), plan.reduced, plan.reduced.count * part / parts,
                plan.reduced.count * (part + 1) / parts, std::min(kColumns, plan.columns - column), acc);
}

// A kernel that reduces input 0 to output 0 by `plan`, for plans of any kind with at least one output. Each (item,
// part) has its own accumulators, so threads share nothing; parts are then joined in ascending order.
template <class T, class Out, class R>
Kernel WholeReduceKernel(ReducePlan plan, R r) {
  const int64_t width = plan.columns == 1 ? 1 : std::min(kColumns, plan.columns);
  const int64_t items = plan.kept.count * ((plan.columns + width - 1) / width);
  const int64_t item_work = plan.reduced_elements() * width;
  // Few long reductions are divided into parts, by the shapes only, so that several threads can share them. A part has
  // at least 64 K elements, which makes joining at most 16 parts per item negligible.
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

// The attributes "axes" (listing all of them) and "keep_dims" of a reduction of x.
Attrs ReduceAttrs(const Axes& axes, Output x, bool keep_dims);

}  // namespace belfry::ops
