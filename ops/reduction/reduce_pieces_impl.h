// Reductions that can be fed piece by piece (framework/graph/kernel.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <optional>

#include "framework/base/alignment.h"
#include "framework/graph/kernel.h"
#include "ops/reduction/reduce_impl.h"

namespace belfry::ops {

// Reductions of longer rows are not fed piece by piece.
inline constexpr int64_t kLongestRow = 4096;

// Elements per chunk for `elements` elements in rows of `row`, chosen by the shape only: chunks are large enough for a
// thread each, and few.
int64_t ChunkOf(int64_t elements, int64_t row);

// A kernel for a reduction of `elements` elements of `size` bytes, whose chunks are divided among threads.
Kernel KernelOf(Reduction reduction, int64_t elements, size_t size);

// Reduces all elements to one.
template <class T, class Out, class R>
Reduction ReduceAll(const R& r, int64_t elements) {
  struct alignas(64) State : RunState<R> {
    using RunState<R>::RunState;
  };
  const int64_t chunk = ChunkOf(elements, 1);
  Reduction reduction{.chunk = chunk, .state_bytes = sizeof(State)};
  reduction.add = [r, chunk](const void* x, int64_t begin, int64_t n, void* state, void*) {
    auto* const at = begin % chunk == 0 ? new (state) State(r) : static_cast<State*>(state);
    at->Add(r, static_cast<const T*>(x), n);
  };
  reduction.finish = [r, chunks = (elements + chunk - 1) / chunk](void* states, void* y) {
    auto* const state = static_cast<State*>(states);
    for (int64_t c = 0; c < chunks; ++c) {
      state[c].Flush(r);
      if (c > 0) state[0].acc = r.Join(state[0].acc, state[c].acc);
    }
    *static_cast<Out*>(y) = static_cast<Out>(r.Finish(state[0].acc));
  };
  return reduction;
}

// Reduces each row to one element.
template <class T, class Out, class R>
Reduction ReduceRows(const R& r, int64_t elements, int64_t row) {
  Reduction reduction{.row = row, .chunk = ChunkOf(elements, row)};
  reduction.add = [r, row](const void* x, int64_t begin, int64_t n, void*, void* y) {
    const T* in = static_cast<const T*>(x);
    Out* out = static_cast<Out*>(y) + begin / row;
    for (int64_t i = 0; i < n / row; ++i) out[i] = static_cast<Out>(r.Finish(ReduceRun(r, in + i * row, row)));
  };
  return reduction;
}

// Reduces all rows to one row.
template <class T, class Out, class R>
Reduction ReduceToRow(const R& r, int64_t elements, int64_t row) {
  // A state consists of the number of steps not merged yet, the accumulators and the lanes, each aligned to 64 bytes.
  const size_t lanes_at = kAlignment + AlignUp(sizeof(typename R::Acc) * static_cast<size_t>(row));
  const size_t bytes = lanes_at + AlignUp(sizeof(typename R::Lane) * static_cast<size_t>(row));
  const auto columns = [lanes_at, row](std::byte* state) {
    return ColumnsState<R>{reinterpret_cast<typename R::Acc*>(state + kAlignment),
                           reinterpret_cast<typename R::Lane*>(state + lanes_at), row};
  };
  const int64_t chunk = ChunkOf(elements, row);
  Reduction reduction{.row = row, .chunk = chunk, .state_bytes = bytes};
  reduction.add = [=](const void* x, int64_t begin, int64_t n, void* state, void*) {
    auto* const memory = static_cast<std::byte*>(state);
    auto& steps = *reinterpret_cast<int64_t*>(memory);
    if (begin % chunk == 0) {
      steps = 0;
      columns(memory).Begin(r);
    }
    columns(memory).Add(r, static_cast<const T*>(x), Offsets{.count = n / row, .stride = row}, 0, n / row, steps);
  };
  reduction.finish = [=, chunks = (elements + chunk - 1) / chunk](void* states, void* y) {
    auto* const memory = static_cast<std::byte*>(states);
    const ColumnsState<R> first = columns(memory);
    for (int64_t c = 0; c < chunks; ++c) {
      std::byte* const at = memory + static_cast<size_t>(c) * bytes;
      const ColumnsState<R> state = columns(at);
      state.Flush(r, *reinterpret_cast<int64_t*>(at));
      for (int64_t j = 0; c > 0 && j < row; ++j) first.acc[j] = r.Join(first.acc[j], state.acc[j]);
    }
    for (int64_t j = 0; j < row; ++j) static_cast<Out*>(y)[j] = static_cast<Out>(r.Finish(first.acc[j]));
  };
  return reduction;
}

// Nothing for reductions over several groups of axes, of long rows, or without elements.
template <class T, class Out, class R>
std::optional<Reduction> InPieces(const ReducePlan& plan, const R& r) {
  const int64_t elements = plan.outputs() * plan.reduced_elements();
  if (elements == 0) return std::nullopt;
  if (plan.outputs() == 1 && plan.reduced.count == 1) return ReduceAll<T, Out>(r, elements);
  if (plan.columns == 1 && plan.reduced.count == 1 && plan.kept.table.empty() && plan.run <= kLongestRow) {
    return ReduceRows<T, Out>(r, elements, plan.run);
  }
  if (plan.kept.count == 1 && plan.run == 1 && plan.reduced.table.empty() && plan.columns <= kLongestRow) {
    return ReduceToRow<T, Out>(r, elements, plan.columns);
  }
  return std::nullopt;
}

// A kernel that reduces input 0 to output 0 by `plan`.
template <class T, class Out, class R>
Kernel ReduceKernel(ReducePlan plan, const R& r) {
  if (plan.outputs() == 0) return NothingToDo();
  if (plan.outputs() == 1 && plan.reduced.count == 1 && plan.run <= kLanes * kSteps) {
    return Kernel{[r, n = plan.run, first = plan.reduced[0]](const KernelContext& context) {
      *context.output<Out>(0) = static_cast<Out>(r.Finish(ReduceRun(r, context.input<T>(0) + first, n)));
      return absl::OkStatus();
    }};
  }
  std::optional<Reduction> pieces = InPieces<T, Out>(plan, r);
  if (!pieces.has_value()) return WholeReduceKernel<T, Out>(std::move(plan), r);
  const int64_t elements = plan.outputs() * plan.reduced_elements();
  return KernelOf(*std::move(pieces), elements, sizeof(T));
}

// The CPU kernel of an op that reduces input 0 by plan_of(spec), a StatusOr<ReducePlan>, with reduction_of(plan).
template <class T, class PlanOf, class ReductionOf>
KernelDef ReduceKernelDef(const PlanOf& plan_of, const ReductionOf& reduction_of) {
  KernelDef def{.device_type = "CPU", .dtype = kDTypeOf<T>, .make = nullptr};
  def.make = [=](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    ASSIGN_OR_RETURN(ReducePlan plan, plan_of(spec));
    const auto reduction = reduction_of(plan);
    return ReduceKernel<T, T>(std::move(plan), reduction);
  };
  def.reduce = [=](const KernelSpec& spec) -> std::optional<Reduction> {
    const absl::StatusOr<ReducePlan> plan = plan_of(spec);
    return plan.ok() ? InPieces<T, T>(*plan, reduction_of(*plan)) : std::nullopt;
  };
  return def;
}
// Kernel definitions for R<Compute<T>>(), for each T.
template <template <class> class R, class... Ts, class PlanOf>
std::vector<KernelDef> ReduceKernels(const PlanOf& plan_of) {
  return {ReduceKernelDef<Ts>(plan_of, [](const ReducePlan&) { return R<Compute<Ts>>(); })...};
}

// A plan for input 0 and the attribute "axes".
absl::StatusOr<ReducePlan> PlanOfAxes(const KernelSpec& spec);
// A plan for all axes of input 0.
absl::StatusOr<ReducePlan> PlanOfAll(const KernelSpec& spec);

}  // namespace belfry::ops
