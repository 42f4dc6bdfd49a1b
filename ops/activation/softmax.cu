#include <cmath>

#include "framework/graph/op_def.h"
#include "ops/activation/activation_ops.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/rows_gpu_impl.h"

namespace belfry::ops {
namespace {

// The tensor viewed as [outer, n, inner], normalised along n. A row is one pair of indices (outer, inner).
struct Rows {
  int64_t count, n;
  Divider inner;
  double scale;

  explicit Rows(const KernelSpec& spec) {
    const Shape& shape = spec.outputs[0].shape;
    const int axis = *CanonicalAxis(spec.attrs.Int("axis"), shape.rank());
    const int64_t within = shape.elements(axis + 1, shape.rank());
    n = shape[axis];
    count = n == 0 ? 0 : shape.elements(0, axis) * within;
    if (within > 0) inner = Divider(within, count);
    scale = 1 / spec.attrs.Float("temperature");
  }

  int64_t stride() const { return inner.divisor(); }

  // Index of the first element of a row.
  BELFRY_GPU int64_t First(int64_t row) const {
    if (inner.divisor() == 1) return row * n;
    const int64_t column = inner.Split(row);
    return row * n * inner.divisor() + column;
  }

  template <class Body>
  absl::Status ForEach(Stream& stream, const Body& body) const {
    constexpr int64_t kEnoughThreads = 8192;
    if (stride() > 1 && count >= kEnoughThreads) return ForEachRowAlone(stream, count, body);
    return ForEachRowOf(stream, count, n, body);
  }
};

template <class T, bool log>
struct Normalize {
  using C = gpu::Compute<T>;
  Rows rows;
  const gpu::Stored<T>* x;
  gpu::Stored<T>* y;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const int64_t first = rows.First(row), stride = rows.inner.divisor();
    const C scale = static_cast<C>(rows.scale);
    TopAndSum<C> own;
    for (int64_t k = team.rank; k < rows.n; k += team.size) own.Add(gpu::Widen(x[first + k * stride]), scale);
    const TopAndSum<C> all = own.OfTeam(team, scale);
    const C last = log ? std::log(all.sum) : 1 / all.sum;
    for (int64_t k = team.rank; k < rows.n; k += team.size) {
      const int64_t at = first + k * stride;
      const C shifted = (gpu::Widen(x[at]) - all.top) * scale;
      y[at] = gpu::Narrow<T>(log ? shifted - last : std::exp(shifted) * last);
    }
  }
};

// dx = y (dy - sum(dy y)) / temperature; for LogSoftmax, dx = (dy - exp(y) sum(dy)) / temperature.
template <class T, bool log>
struct SoftmaxGradient {
  using C = gpu::Compute<T>;
  Rows rows;
  const gpu::Stored<T>*dy, *y;
  gpu::Stored<T>* dx;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const int64_t first = rows.First(row), stride = rows.inner.divisor();
    const C scale = static_cast<C>(rows.scale);
    C own = 0;
    for (int64_t k = team.rank; k < rows.n; k += team.size) {
      const int64_t at = first + k * stride;
      own += log ? gpu::Widen(dy[at]) : gpu::Widen(dy[at]) * gpu::Widen(y[at]);
    }
    const C sum = team.Sum(own);
    for (int64_t k = team.rank; k < rows.n; k += team.size) {
      const int64_t at = first + k * stride;
      const C value = gpu::Widen(y[at]), slope = gpu::Widen(dy[at]);
      dx[at] = gpu::Narrow<T>(scale * (log ? slope - std::exp(value) * sum : value * (slope - sum)));
    }
  }
};

template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmax(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[rows = Rows(spec)](const KernelContext& at) {
    return rows.ForEach(*at.stream, Normalize<T, log>{rows, at.input<S>(0), at.output<S>(0)});
  }};
}
template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmaxGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[rows = Rows(spec)](const KernelContext& at) {
    return rows.ForEach(*at.stream, SoftmaxGradient<T, log>{rows, at.input<S>(0), at.input<S>(1), at.output<S>(0)});
  }};
}

template <bool log>
void AddKernels(KernelTable& table, const std::string& op) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                           "GPU", [](auto tag) { return &MakeSoftmax<typename decltype(tag)::type, log>; }));
  table.AddKernels(op + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeSoftmaxGrad<typename decltype(tag)::type, log>;
                   }));
}

}  // namespace

void AddSoftmaxGpuKernels(KernelTable& table) {
  AddKernels<false>(table, "Softmax");
  AddKernels<true>(table, "LogSoftmax");
}

}  // namespace belfry::ops
