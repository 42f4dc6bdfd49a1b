// Reductions over any axes on GPUs. Only for .cu files.
//
// If the innermost axes are reduced, a team of threads reduces each output; if they are kept, a single thread does, and
// its neighbours reduce the neighbouring outputs. If that leaves too few threads busy, the elements of an output are
// divided into parts, by the shapes only, and a second launch joins their results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel.h"
#include "ops/gpu/divider_impl.h"
#include "ops/reduction/reduce_plan_impl.h"

namespace belfry::ops {

// Offsets of the iterations of a loop nest.
struct GpuOffsets {
  static constexpr int kMaxLoops = 8;
  struct Loop {
    Divider extent;
    int64_t stride = 0;
  };
  int64_t count = 1;
  int loops = 0;
  Loop loop[kMaxLoops];  // innermost first

  BELFRY_GPU int64_t operator[](int64_t i) const {
    if (loops <= 1) return i * loop[0].stride;
    int64_t offset = 0;
    for (int l = 0; l < loops - 1; ++l) offset += loop[l].extent.Split(i) * loop[l].stride;
    return offset + i * loop[loops - 1].stride;
  }
};

struct GpuReducePlan {
  GpuOffsets kept;     // offsets of the outputs' first elements; each covers `columns` outputs
  GpuOffsets reduced;  // offsets of an output's elements from its first
  Divider columns;     // adjacent elements that belong to different outputs
  bool teams = false;  // one team per part of an output, instead of one thread
  Divider parts;       // per output; more than one goes through the workspace

  int64_t outputs() const { return kept.count * columns.divisor(); }
  template <class R>
  size_t WorkspaceBytes() const {
    return parts.divisor() == 1 ? 0 : sizeof(typename R::Acc) * static_cast<size_t>(outputs() * parts.divisor());
  }
};

// Unimplemented if more than GpuOffsets::kMaxLoops groups of axes remain. REQUIRES: `shape` is known.
absl::StatusOr<GpuReducePlan> PlanGpuReduce(const Shape& shape, const std::vector<bool>& reduced);
// A plan for input 0 and the attribute "axes".
absl::StatusOr<GpuReducePlan> PlanGpuReduce(const KernelSpec& spec);

// Reduces the elements first, first + step, ... below `end` of the output that starts at `base`.
template <class R, class Load>
BELFRY_GPU typename R::Acc GpuReduceSteps(const R& r, const Load& load, const GpuOffsets& reduced, int64_t output,
                                          int64_t base, int64_t first, int64_t end, int64_t step) {
  constexpr int kUnroll = 8;  // loads in flight, and elements combined in one lane
  typename R::Acc acc = r.Begin();
  int64_t i = first;
  if (reduced.loops <= 1) {
    const int64_t stride = reduced.loop[0].stride;
    for (; i + (kUnroll - 1) * step < end; i += kUnroll * step) {
      decltype(load(base, output, i)) value[kUnroll];
      for (int u = 0; u < kUnroll; ++u) value[u] = load(base + (i + u * step) * stride, output, i + u * step);
      typename R::Lane lane = r.Start();
      for (int u = 0; u < kUnroll; ++u) lane = r.Step(lane, value[u]);
      acc = r.Merge(acc, lane);
    }
  }
  for (; i < end; i += step) acc = r.Merge(acc, r.Step(r.Start(), load(base + reduced[i], output, i)));
  return acc;
}

template <class R>
struct GpuJoin {
  R r;
  template <class Acc>
  BELFRY_GPU Acc operator()(Acc a, Acc b) const {
    return r.Join(a, b);
  }
};

template <class R, class Load, class Store>
absl::Status GpuReduceByTeam(Stream& stream, const GpuReducePlan& plan, const R& r, const Load& load,
                             const Store& store, typename R::Acc* partial) {
  const int64_t parts = plan.parts.divisor(), count = plan.reduced.count, chunk = (count + parts - 1) / parts;
  return gpu::ForEachRow(stream, plan.outputs() * parts, chunk, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) {
    const int64_t output = plan.parts.Quotient(row), begin = (row - output * parts) * chunk;
    const int64_t end = begin + chunk < count ? begin + chunk : count;
    typename R::Acc acc = GpuReduceSteps(r, load, plan.reduced, output, plan.kept[output], begin + team.rank, end,
                                         static_cast<int64_t>(team.size));
    acc = team.Reduce(acc, GpuJoin<R>{r});
    if (team.rank != 0) return;
    if (parts == 1) {
      store(output, acc);
    } else {
      partial[row] = acc;
    }
  });
}

template <class R, class Load, class Store>
absl::Status GpuReduceByThread(Stream& stream, const GpuReducePlan& plan, const R& r, const Load& load,
                               const Store& store, typename R::Acc* partial) {
  const int64_t parts = plan.parts.divisor(), count = plan.reduced.count;
  return gpu::ForEach(stream, plan.outputs() * parts, [=] BELFRY_GPU(int64_t i) {
    int64_t kept = i;
    const int64_t column = plan.columns.Split(kept), part = plan.parts.Split(kept);
    const int64_t output = kept * plan.columns.divisor() + column;
    const typename R::Acc acc =
        GpuReduceSteps(r, load, plan.reduced, output, plan.kept[kept] + column, part, count, parts);
    if (parts == 1) {
      store(output, acc);
    } else {
      partial[i] = acc;
    }
  });
}

// Joins the parts, which are stored as [kept, parts, columns].
template <class R, class Store>
absl::Status GpuJoinParts(Stream& stream, const GpuReducePlan& plan, const R& r, const Store& store,
                          const typename R::Acc* partial) {
  const int64_t parts = plan.parts.divisor(), columns = plan.columns.divisor();
  return gpu::ForEachRow(stream, plan.outputs(), parts, [=] BELFRY_GPU(int64_t output, const gpu::Team& team) {
    const int64_t kept = plan.columns.Quotient(output), first = kept * parts * columns + (output - kept * columns);
    typename R::Acc acc = r.Begin();
    for (int64_t p = team.rank; p < parts; p += team.size) acc = r.Join(acc, partial[first + p * columns]);
    acc = team.Reduce(acc, GpuJoin<R>{r});
    if (team.rank == 0) store(output, acc);
  });
}

// Reduces the values load(offset, output, i) of the elements i of each output with R (reduce_impl.h), and calls
// store(output, Acc). All three are small and trivially copyable, with device members. `workspace` has
// plan.WorkspaceBytes<R>().
template <class R, class Load, class Store>
absl::Status GpuReduce(Stream& stream, const GpuReducePlan& plan, const R& r, const Load& load, const Store& store,
                       void* workspace) {
  auto* const partial = static_cast<typename R::Acc*>(workspace);
  RETURN_IF_ERROR(plan.teams ? GpuReduceByTeam(stream, plan, r, load, store, partial)
                             : GpuReduceByThread(stream, plan, r, load, store, partial));
  return plan.parts.divisor() == 1 ? absl::OkStatus() : GpuJoinParts(stream, plan, r, store, partial);
}

// Loads an element in the type of the computation, and stores the result of R.
template <class T>
struct GpuLoad {
  const gpu::Stored<T>* x;
  BELFRY_GPU gpu::Compute<T> operator()(int64_t at, int64_t, int64_t) const { return gpu::Widen(x[at]); }
};
template <class T, class R>
struct GpuStore {
  gpu::Stored<T>* y;
  R r;
  BELFRY_GPU void operator()(int64_t output, typename R::Acc acc) const { y[output] = gpu::Narrow<T>(r.Finish(acc)); }
};

// Reduces input 0 to output 0 by the plan.
template <class T, class R>
Kernel GpuReduceKernel(const GpuReducePlan& plan, R r) {
  Kernel kernel;
  kernel.workspace_bytes = plan.WorkspaceBytes<R>();
  kernel.run = [plan, r](const KernelContext& at) {
    return GpuReduce(*at.stream, plan, r, GpuLoad<T>{at.input<gpu::Stored<T>>(0)},
                     GpuStore<T, R>{at.output<gpu::Stored<T>>(0), r}, at.workspace);
  };
  return kernel;
}

}  // namespace belfry::ops
