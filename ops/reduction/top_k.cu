#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/common/index_type_impl.h"
#include "ops/elementwise/step_functors.h"
#include "ops/gpu/divider_impl.h"
#include "ops/reduction/candidate_gpu_impl.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {
namespace {

// One team per row repeatedly takes the first of the elements that follow the last one taken, k times.
template <class T>
absl::Status TakeFirst(Stream& stream, int64_t rows, int64_t n, int64_t k, const gpu::Stored<T>* x,
                       gpu::Stored<T>* values, int32_t* indices) {
  using C = gpu::Compute<T>;
  return gpu::ForEachRow(stream, rows, n, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) {
    const gpu::Stored<T>* const in = x + row * n;
    Candidate<C> last{C(0), -1};
    for (int64_t taken = 0; taken < k; ++taken) {
      Candidate<C> best{C(0), -1};
      for (int64_t i = team.rank; i < n; i += team.size) {
        const Candidate<C> next{gpu::Widen(in[i]), i};
        if ((taken == 0 || ComesFirst<true>(last, next)) && ComesFirst<true>(next, best)) best = next;
      }
      last = team.Reduce(best, FirstOf<C, true>());
      if (team.rank == 0) {
        values[row * k + taken] = in[last.index];
        indices[row * k + taken] = static_cast<int32_t>(last.index);
      }
    }
  });
}

// Each element counts those that precede it, which gives its rank: more work, spread over more threads.
template <class T>
absl::Status RankAll(Stream& stream, int64_t rows, int64_t n, int64_t k, const gpu::Stored<T>* x,
                     gpu::Stored<T>* values, int32_t* indices) {
  using C = gpu::Compute<T>;
  const Divider by_n(n, rows * n);
  return gpu::ForEach(stream, rows * n, [=] BELFRY_GPU(int64_t at) {
    const int64_t row = by_n.Quotient(at), index = at - row * n;
    const Candidate<C> own{gpu::Widen(x[at]), index};
    int64_t before = 0;
    for (int64_t i = 0; i < n; ++i) {
      before += ComesFirst<true>(Candidate<C>{gpu::Widen(x[row * n + i]), i}, own) ? 1 : 0;
    }
    if (before >= k) return;
    values[row * k + before] = x[at];
    indices[row * k + before] = static_cast<int32_t>(index);
  });
}

template <class T>
absl::StatusOr<Kernel> MakeTopK(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Shape& x = spec.inputs[0].shape;
  const int64_t n = x[-1], k = spec.outputs[0].shape[-1], rows = x.elements(0, x.rank() - 1);
  if (rows == 0 || k == 0) return NothingToDo();
  // Approximate clock cycles of both methods, where 512 teams or 60000 threads run at a time.
  const double size = static_cast<double>(n), turns = static_cast<double>((rows + 511) / 512);
  const double by_team = static_cast<double>(k) * (size / 8 + 200) * turns;
  const double by_rank = static_cast<double>(rows) * size * size / 2048 + 10 * size;
  return Kernel{[=, rank = by_rank < by_team](const KernelContext& at) {
    return (rank ? RankAll<T> : TakeFirst<T>)(*at.stream, rows, n, k, at.input<S>(0), at.output<S>(0),
                                              at.output<int32_t>(1));
  }};
}

template <class T>
absl::Status Scatter(Stream& stream, int64_t count, int64_t n, int64_t k, const gpu::Stored<T>* dy,
                     const int32_t* indices, gpu::Stored<T>* dx) {
  const Divider by_k(k, count);
  return gpu::ForEach(stream, count, [=] BELFRY_GPU(int64_t i) {
    const int64_t index = indices[i];
    if (index >= 0 && index < n) dx[by_k.Quotient(i) * n + index] = dy[i];
  });
}

template <class T>
absl::StatusOr<Kernel> MakeTopKGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const size_t bytes = spec.outputs[0].bytes();
  if (bytes == 0) return NothingToDo();
  const int64_t count = spec.inputs[0].shape.elements();
  return Kernel{[bytes, count, n = spec.outputs[0].shape[-1], k = spec.inputs[0].shape[-1]](const KernelContext& at) {
    RETURN_IF_ERROR(gpu::SetBytes(*at.stream, at.outputs[0], 0, bytes));
    return Scatter<T>(*at.stream, count, n, k, at.input<S>(0), at.input<int32_t>(1), at.output<S>(0));
  }};
}

template <class T, class Index>
absl::Status FindInTopK(Stream& stream, int64_t rows, int64_t classes, int64_t k, const gpu::Stored<T>* x,
                        const Index* targets, bool* y) {
  using C = gpu::Compute<T>;
  return gpu::ForEachRow(stream, rows, classes, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) {
    const gpu::Stored<T>* const in = x + row * classes;
    const int64_t target = targets[row];
    const bool inside = target >= 0 && target < classes;
    const C chosen = inside ? gpu::Widen(in[target]) : C(0);
    int64_t larger = 0, strange = 0;
    for (int64_t i = team.rank; i < classes; i += team.size) {
      const C value = gpu::Widen(in[i]);
      strange += functor::IsFinite<C>()(value) ? 0 : 1;
      larger += value > chosen ? 1 : 0;
    }
    larger = team.Sum(larger);
    strange = team.Sum(strange);
    if (team.rank == 0) y[row] = inside && strange == 0 && larger < k;
  });
}

template <class T, class Index>
Kernel InTopKKernel(int64_t rows, int64_t classes, int64_t k) {
  return Kernel{[=](const KernelContext& at) {
    return FindInTopK<T, Index>(*at.stream, rows, classes, k, at.input<gpu::Stored<T>>(0), at.input<Index>(1),
                                at.output<bool>(0));
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeInTopK(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const int64_t k = spec.attrs.Int("k");
  return WithIndexType(spec.inputs[1].dtype,
                       [&](auto index) { return InTopKKernel<T, decltype(index)>(x[0], x[1], k); });
}

}  // namespace

void AddTopKGpuKernels(KernelTable& table) {
  table.AddKernels("TopK", Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                               "GPU", [](auto tag) { return &MakeTopK<typename decltype(tag)::type>; }));
  table.AddKernels("TopKGrad", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeTopKGrad<typename decltype(tag)::type>; }));
  table.AddKernels("InTopK", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeInTopK<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
