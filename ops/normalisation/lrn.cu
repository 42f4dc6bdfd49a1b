#include <algorithm>

#include "framework/graph/op_def.h"
#include "ops/activation/functors.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/rows_gpu_impl.h"
#include "ops/normalisation/normalisation_ops.h"

namespace belfry::ops {
namespace {

template <class C>
struct LrnGeometry {
  int64_t rows, radius;
  Divider channels;
  C bias, alpha;
  double beta;

  explicit LrnGeometry(const KernelSpec& spec) : beta(spec.attrs.Float("beta")) {
    const Shape& shape = spec.outputs[0].shape;
    rows = shape[-1] == 0 ? 0 : shape.elements(0, shape.rank() - 1);
    radius = std::min(spec.attrs.Int("depth_radius"), shape[-1]);
    if (shape[-1] > 0) channels = Divider(shape[-1], shape.elements());
    bias = static_cast<C>(spec.attrs.Float("bias"));
    alpha = static_cast<C>(spec.attrs.Float("alpha"));
  }

  int64_t elements() const { return rows * channels.divisor(); }
  // Number of teams that work at a time, each with its own scratch: enough for any GPU, but few enough for the scratch
  // to stay in the L2 cache.
  int64_t teams() const {
    constexpr int64_t kScratchElements = int64_t{1} << 20;
    return std::min(rows, std::max<int64_t>(kScratchElements / channels.divisor(), 1));
  }

  // The sum of value(j) over the channels j within the radius of c.
  template <class Value>
  BELFRY_GPU C WindowSum(int64_t c, const Value& value) const {
    const int64_t low = c < radius ? 0 : c - radius, count = channels.divisor();
    const int64_t high = c + radius < count ? c + radius : count - 1;
    C sum = 0;
    for (int64_t j = low; j <= high; ++j) sum += value(j);
    return sum;
  }
  // base^-beta of channel c of the row x, and inverse = 1 / base.
  template <class S>
  BELFRY_GPU C Power(const S* x, int64_t c, C& inverse) const {
    const C squares = WindowSum(c, [=](int64_t j) {
      const C value = gpu::Widen(x[j]);
      return value * value;
    });
    return functor::NegativePower<C>(beta)(bias + alpha * squares, inverse);
  }
};

template <class T>
absl::Status Forward(Stream& stream, const LrnGeometry<gpu::Compute<T>>& g, const gpu::Stored<T>* x,
                     gpu::Stored<T>* y) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, g.elements(), [=] BELFRY_GPU(int64_t i) {
    C inverse;
    int64_t row = i;
    const int64_t c = g.channels.Split(row);
    y[i] = gpu::Narrow<T>(gpu::Widen(x[i]) * g.Power(x + (i - c), c, inverse));
  });
}

// For y == x: a row is written only after all of it has been read.
template <class T>
absl::Status ForwardInPlace(Stream& stream, const LrnGeometry<gpu::Compute<T>>& g, gpu::Compute<T>* scratch,
                            gpu::Stored<T>* x) {
  using C = gpu::Compute<T>;
  const int64_t teams = g.teams(), channels = g.channels.divisor();
  return gpu::ForEachRow(stream, teams, channels, [=] BELFRY_GPU(int64_t slot, const gpu::Team& team) {
    C *results = scratch + slot * channels, inverse;
    for (int64_t row = slot; row < g.rows; row += teams) {
      gpu::Stored<T>* values = x + row * channels;
      for (int64_t c = team.rank; c < channels; c += team.size) {
        results[c] = gpu::Widen(values[c]) * g.Power(values, c, inverse);
      }
      team.Wait();
      for (int64_t c = team.rank; c < channels; c += team.size) values[c] = gpu::Narrow<T>(results[c]);
    }
  });
}

template <class T>
absl::StatusOr<Kernel> MakeLrn(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const LrnGeometry<C> g(spec);
  return Kernel{[g](const KernelContext& at) {
                  const S* x = at.input<S>(0);
                  S* y = at.output<S>(0);
                  return x == y ? ForwardInPlace<T>(*at.stream, g, static_cast<C*>(at.workspace), y)
                                : Forward<T>(*at.stream, g, x, y);
                },
                static_cast<size_t>(g.teams() * g.channels.divisor()) * sizeof(C)};
}

// dx[i] = dy[i] base[i]^-beta - 2 alpha beta x[i] sum dy[j] x[j] base[j]^(-beta - 1), over j within the radius of i. If
// masked, 0 where x[i] is not above 0. A team keeps both factors of its row in scratch, so dx may be dy or x.
template <class T>
absl::Status Backward(Stream& stream, const LrnGeometry<gpu::Compute<T>>& g, gpu::Compute<T>* scratch, bool masked,
                      const gpu::Stored<T>* dy, const gpu::Stored<T>* x, gpu::Stored<T>* dx) {
  using C = gpu::Compute<T>;
  const int64_t teams = g.teams(), channels = g.channels.divisor();
  const C factor = C(-2) * g.alpha * static_cast<C>(g.beta);
  return gpu::ForEachRow(stream, teams, channels, [=] BELFRY_GPU(int64_t slot, const gpu::Team& team) {
    C *direct = scratch + 2 * slot * channels, *inner = direct + channels;
    for (int64_t row = slot; row < g.rows; row += teams) {
      const int64_t first = row * channels;
      for (int64_t c = team.rank; c < channels; c += team.size) {
        C inverse;
        const C slope = gpu::Widen(dy[first + c]) * g.Power(x + first, c, inverse);
        direct[c] = slope;
        inner[c] = slope * gpu::Widen(x[first + c]) * inverse;
      }
      team.Wait();
      for (int64_t c = team.rank; c < channels; c += team.size) {
        const C sum = g.WindowSum(c, [=](int64_t j) { return inner[j]; });
        const C at = gpu::Widen(x[first + c]);
        dx[first + c] = gpu::Narrow<T>(!masked || at > 0 ? direct[c] + factor * at * sum : C(0));
      }
      if (row + teams < g.rows) team.Wait();
    }
  });
}

template <class T>
absl::StatusOr<Kernel> MakeLrnGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const LrnGeometry<C> g(spec);
  return Kernel{[g, masked = spec.attrs.Bool("masked")](const KernelContext& at) {
                  return Backward<T>(*at.stream, g, static_cast<C*>(at.workspace), masked, at.input<S>(0),
                                     at.input<S>(1), at.output<S>(0));
                },
                static_cast<size_t>(2 * g.teams() * g.channels.divisor()) * sizeof(C)};
}

}  // namespace

void AddLrnGpuKernels(KernelTable& table) {
  table.AddKernels("LRN", Kernels<float, double, Half, BFloat16>(
                              "GPU", [](auto tag) { return &MakeLrn<typename decltype(tag)::type>; }));
  table.AddKernels("LRNGrad", Kernels<float, double, Half, BFloat16>(
                                  "GPU", [](auto tag) { return &MakeLrnGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
