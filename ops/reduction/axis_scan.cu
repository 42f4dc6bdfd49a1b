#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/reduction/candidate_gpu_impl.h"
#include "ops/reduction/reduce_gpu_impl.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {
namespace {

// --- ArgMax and ArgMin: reductions of candidates ---

template <class C, bool max>
struct FirstReduction {
  using Lane = Candidate<C>;
  using Acc = Candidate<C>;

  static constexpr Lane Start() { return {0, -1}; }
  static constexpr Lane Step(Lane lane, Lane x) { return FirstOf<C, max>()(lane, x); }
  static constexpr Acc Begin() { return Start(); }
  static constexpr Acc Merge(Acc acc, Lane lane) { return Step(acc, lane); }
  static constexpr Acc Join(Acc a, Acc b) { return Step(a, b); }
};
template <class T>
struct LoadCandidate {
  const gpu::Stored<T>* x;
  BELFRY_GPU Candidate<gpu::Compute<T>> operator()(int64_t at, int64_t, int64_t i) const {
    return {gpu::Widen(x[at]), i};
  }
};
template <class C>
struct StoreIndex {
  int32_t* narrow;  // one of the two is null
  int64_t* wide;
  BELFRY_GPU void operator()(int64_t output, Candidate<C> first) const {
    if (narrow != nullptr) narrow[output] = static_cast<int32_t>(first.index);
    if (wide != nullptr) wide[output] = first.index;
  }
};

template <class T, bool max>
absl::StatusOr<Kernel> MakeArgExtreme(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  using R = FirstReduction<C, max>;
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes({spec.attrs.Int("axis")}, x.rank()));
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(x, reduced));
  const bool narrow = spec.outputs[0].dtype == DType::kInt32;
  Kernel kernel;
  kernel.workspace_bytes = plan.WorkspaceBytes<R>();
  kernel.run = [plan, narrow](const KernelContext& at) {
    const StoreIndex<C> store{narrow ? at.output<int32_t>(0) : nullptr, narrow ? nullptr : at.output<int64_t>(0)};
    return GpuReduce(*at.stream, plan, R(), LoadCandidate<T>{at.input<gpu::Stored<T>>(0)}, store, at.workspace);
  };
  return kernel;
}

// --- Cumsum: each axis is split into parts; their sums are added up first, so that all parts can then run in parallel
// ---

struct ScanPlan {
  int64_t extent;        // of the scanned axis
  Divider inner;         // elements per index of the scanned axis
  Divider columns;       // number of independent scans
  int64_t parts, chunk;  // parts per scan, and elements per part
  bool exclusive, reverse;

  // The offset of element i in the direction of the scan.
  BELFRY_GPU int64_t At(int64_t column, int64_t i) const {
    const int64_t within = inner.Split(column), along = reverse ? extent - 1 - i : i;
    return (column * extent + along) * inner.divisor() + within;
  }
};

template <class T>
using ScanSum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

// Computes the sum of every part: sums [parts, columns].
template <class T>
absl::Status SumParts(Stream& stream, const ScanPlan& plan, const gpu::Stored<T>* x, ScanSum<T>* sums) {
  return gpu::ForEach(stream, plan.parts * plan.columns.divisor(), [=] BELFRY_GPU(int64_t item) {
    int64_t part = item;
    const int64_t column = plan.columns.Split(part);
    const int64_t end = (part + 1) * plan.chunk < plan.extent ? (part + 1) * plan.chunk : plan.extent;
    ScanSum<T> sum = 0;
    for (int64_t i = part * plan.chunk; i < end; ++i) {
      sum += static_cast<ScanSum<T>>(gpu::Widen(x[plan.At(column, i)]));
    }
    sums[item] = sum;
  });
}

// Replaces each sum by the sum of all parts before it.
template <class Sum>
absl::Status AddUpParts(Stream& stream, const ScanPlan& plan, Sum* sums) {
  const int64_t columns = plan.columns.divisor();
  return gpu::ForEach(stream, columns, [=] BELFRY_GPU(int64_t column) {
    Sum before = 0;
    for (int64_t part = 0; part < plan.parts; ++part) {
      const Sum own = sums[part * columns + column];
      sums[part * columns + column] = before;
      before += own;
    }
  });
}

// `before` is [parts, columns], or null for zeros.
template <class T>
absl::Status ScanParts(Stream& stream, const ScanPlan& plan, const gpu::Stored<T>* x, const ScanSum<T>* before,
                       gpu::Stored<T>* y) {
  return gpu::ForEach(stream, plan.parts * plan.columns.divisor(), [=] BELFRY_GPU(int64_t item) {
    int64_t part = item;
    const int64_t column = plan.columns.Split(part);
    const int64_t end = (part + 1) * plan.chunk < plan.extent ? (part + 1) * plan.chunk : plan.extent;
    ScanSum<T> sum = before == nullptr ? ScanSum<T>(0) : before[item];
    for (int64_t i = part * plan.chunk; i < end; ++i) {
      const int64_t at = plan.At(column, i);
      const ScanSum<T> next = sum + static_cast<ScanSum<T>>(gpu::Widen(x[at]));
      y[at] = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(plan.exclusive ? sum : next));
      sum = next;
    }
  });
}

template <class T>
absl::StatusOr<Kernel> MakeCumsum(const KernelSpec& spec) {
  constexpr int64_t kThreads = 64 * 1024, kChunk = 32, kMaxParts = 2048;
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(spec.attrs.Int("axis"), x.rank()));
  if (x.elements() == 0) return NothingToDo();
  ScanPlan plan{.extent = x[axis],
                .inner = Divider(x.elements(axis + 1, x.rank()), x.elements()),
                .columns = Divider(x.elements() / x[axis], x.elements()),
                .parts = 1,
                .chunk = x[axis],
                .exclusive = spec.attrs.Bool("exclusive"),
                .reverse = spec.attrs.Bool("reverse")};
  plan.parts = std::max<int64_t>(1, std::min({plan.extent / kChunk, kThreads / plan.columns.divisor(), kMaxParts}));
  plan.chunk = (plan.extent + plan.parts - 1) / plan.parts;
  Kernel kernel;
  kernel.workspace_bytes =
      plan.parts == 1 ? 0 : sizeof(ScanSum<T>) * static_cast<size_t>(plan.parts * plan.columns.divisor());
  kernel.run = [plan](const KernelContext& at) {
    const auto* in = at.input<gpu::Stored<T>>(0);
    auto* sums = plan.parts == 1 ? nullptr : static_cast<ScanSum<T>*>(at.workspace);
    if (sums != nullptr) {
      RETURN_IF_ERROR(SumParts<T>(*at.stream, plan, in, sums));
      RETURN_IF_ERROR(AddUpParts(*at.stream, plan, sums));
    }
    return ScanParts<T>(*at.stream, plan, in, sums, at.output<gpu::Stored<T>>(0));
  };
  return kernel;
}

}  // namespace

void AddAxisScanGpuKernels(KernelTable& table) {
  table.AddKernels("ArgMax", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                                 "GPU", [](auto tag) { return &MakeArgExtreme<typename decltype(tag)::type, true>; }));
  table.AddKernels("ArgMin", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                                 "GPU", [](auto tag) { return &MakeArgExtreme<typename decltype(tag)::type, false>; }));
  table.AddKernels("Cumsum", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                                 "GPU", [](auto tag) { return &MakeCumsum<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
