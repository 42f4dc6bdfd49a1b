#include <cmath>
#include <limits>

#include "framework/graph/op_def.h"
#include "ops/activation/activation_ops.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packed_rows_gpu_impl.h"
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
  // PacksToKeep of each row.
  template <class T>
  int Packs() const {
    return stride() == 1 ? PacksToKeep<T>(n) : 0;
  }

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

// The same of adjacent elements.
template <class T, bool log, int packs>
struct NormalizeKept {
  using C = gpu::Compute<T>;
  int n;
  C scale;
  const gpu::Stored<T>* x;
  gpu::Stored<T>* y;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    using Row = KeptRow<T, packs>;
    const Row kept(x + row * n, n, team);
    C top = -std::numeric_limits<C>::infinity(), sum = 0;
    kept.ForEach([&top](C value) { top = value > top ? value : top; });
    top = team.Reduce(top, [](C a, C b) { return a < b ? b : a; });
    kept.ForEach([top, &sum, by = scale](C value) { sum += std::exp((value - top) * by); });
    sum = team.Sum(sum);
    const C last = log ? std::log(sum) : 1 / sum;
    gpu::Stored<T>* const to = y + row * n;
    kept.ForEachPack([this, top, last, to](WidePack<T> pack, int i) {
      BELFRY_UNROLL
      for (int j = 0; j < Row::kLanes; ++j) {
        const C shifted = (gpu::Widen(pack.at[j]) - top) * scale;
        pack.at[j] = gpu::Narrow<T>(log ? shifted - last : std::exp(shifted) * last);
      }
      StorePack<T, Row::kLanes>(to + i, pack);
    });
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

template <class T, bool log, int packs>
struct KeptGradient {
  using C = gpu::Compute<T>;
  int n;
  C scale;
  const gpu::Stored<T>*dy, *y;
  gpu::Stored<T>* dx;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    using Row = KeptRow<T, packs>;
    const Row slopes(dy + row * n, n, team), values(y + row * n, n, team);
    C sum = 0;
    slopes.ForEachPackWith(values, [&sum](const WidePack<T>& slope, const WidePack<T>& value, int) {
      BELFRY_UNROLL
      for (int j = 0; j < Row::kLanes; ++j) {
        sum += log ? gpu::Widen(slope.at[j]) : gpu::Widen(slope.at[j]) * gpu::Widen(value.at[j]);
      }
    });
    sum = team.Sum(sum);
    gpu::Stored<T>* const to = dx + row * n;
    slopes.ForEachPackWith(values, [this, sum, to](WidePack<T> slope, const WidePack<T>& value, int i) {
      BELFRY_UNROLL
      for (int j = 0; j < Row::kLanes; ++j) {
        const C of = gpu::Widen(value.at[j]), d = gpu::Widen(slope.at[j]);
        slope.at[j] = gpu::Narrow<T>(scale * (log ? d - std::exp(of) * sum : of * (d - sum)));
      }
      StorePack<T, Row::kLanes>(to + i, slope);
    });
  }
};

template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmax(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  return Kernel{[rows = Rows(spec)](const KernelContext& at) {
    const S* const x = at.input<S>(0);
    S* const y = at.output<S>(0);
    return WithPacks<T>(
        AreAligned({x, y}) ? rows.Packs<T>() : 0,
        [&](auto kept) {
          constexpr int kPacks = decltype(kept)::value;
          const NormalizeKept<T, log, kPacks> body{static_cast<int>(rows.n), static_cast<C>(rows.scale), x, y};
          return ForEachRowInTeams(*at.stream, rows.count, rows.n, body);
        },
        [&] {
          return rows.ForEach(*at.stream, Normalize<T, log>{rows, x, y});
        });
  }};
}
template <class T, bool log>
absl::StatusOr<Kernel> MakeSoftmaxGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  return Kernel{[rows = Rows(spec)](const KernelContext& at) {
    const S *const dy = at.input<S>(0), *const y = at.input<S>(1);
    S* const dx = at.output<S>(0);
    return WithPacks<T>(
        AreAligned({dy, y, dx}) ? rows.Packs<T>() : 0,
        [&](auto kept) {
          constexpr int kPacks = decltype(kept)::value;
          const KeptGradient<T, log, kPacks> body{static_cast<int>(rows.n), static_cast<C>(rows.scale), dy, y, dx};
          return ForEachRowInTeams(*at.stream, rows.count, rows.n, body);
        },
        [&] {
          return rows.ForEach(*at.stream, SoftmaxGradient<T, log>{rows, dy, y, dx});
        });
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
