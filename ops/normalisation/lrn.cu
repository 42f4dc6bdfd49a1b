#include <algorithm>

#include "framework/device/cuda/registers.h"
#include "framework/graph/op_def.h"
#include "ops/activation/functors.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"
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

// Rows of whole packs with a window of 2 kRadius + 1 channels. A block of threads takes some rows, each thread a pack
// of them, and nothing of a row is written before all of it has been read.
template <class T>
struct LrnPacks {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  static constexpr int kRadius = 4;  // the tutorial network's
  static constexpr int kLanes = kWideLanes<T>, kWindow = kLanes + 2 * kRadius;
  static_assert(kLanes == 1 || kLanes % kRadius == 0, "what lies beside a pack is within the next one");

  LrnGeometry<C> g;
  Divider by_packs;     // of a row
  int64_t packs;        // of all rows
  int channels, block;  // block: packs of one

  explicit LrnPacks(const LrnGeometry<C>& geometry)
      : g(geometry),
        by_packs(g.channels.divisor() / kLanes, kMaxPacks),
        packs(g.elements() / kLanes),
        channels(static_cast<int>(g.channels.divisor())),
        block(static_cast<int>(kMaxPacks / by_packs.divisor() * by_packs.divisor())) {}

  static bool Support(const LrnGeometry<C>& g) {
    const int64_t channels = g.channels.divisor();
    return g.radius == kRadius && AreWholePacks<T>(channels) && channels / kLanes <= kMaxPacks;
  }
  int64_t blocks() const { return (packs + block - 1) / block; }
  size_t shared_bytes() const { return static_cast<size_t>(block * kLanes) * sizeof(C); }

  // Calls f(k, i, at, c) for the k-th pack of a thread, which is pack i of the block. Its first element is element `at`
  // of the tensor, and of channel c.
  template <class F>
  BELFRY_GPU void ForEachPack(int64_t index, const gpu::Team& team, const F& f) const {
    const int64_t first = index * block, rest = packs - first;
    const int count = rest < block ? static_cast<int>(rest) : block;
    BELFRY_UNROLL
    for (int k = 0; k < kPerThread; ++k) {
      const int i = team.rank + k * team.size;
      if (i >= count) return;
      auto pack = static_cast<uint32_t>(i);
      const auto c = static_cast<int>(by_packs.Split(pack)) * kLanes;
      f(k, i, (first + i) * kLanes, c);
    }
  }
  // Sets the lanes of the window beside those of the pack at `at`, whose first channel is c, to what `of` returns for
  // elements there, and 0 beyond the channels.
  template <class V, class Of>
  BELFRY_GPU void Beside(const gpu::Stored<V>* at, int c, C (&window)[kWindow], const Of& of) const {
    PackOf<V, kRadius> left = {}, right = {};
    if (c > 0) left = PackAt<V, kRadius>(at - kRadius);
    if (c + kLanes < channels) right = PackAt<V, kRadius>(at + kLanes);
    BELFRY_UNROLL
    for (int j = 0; j < kRadius; ++j) {
      window[j] = of(gpu::Widen(left.at[j]));
      window[kRadius + kLanes + j] = of(gpu::Widen(right.at[j]));
    }
  }
  // sums[j] = window[j] + .. + window[j + 2 kRadius]. Each is a sum of the last ones up to window[kLanes - 2], and one
  // of the first ones from there on.
  BELFRY_GPU static void Sum(const C (&window)[kWindow], C (&sums)[kLanes]) {
    C before = 0, behind = window[kLanes - 1];
    BELFRY_UNROLL
    for (int j = kLanes; j < 2 * kRadius; ++j) behind += window[j];
    BELFRY_UNROLL
    for (int j = kLanes - 1; j >= 0; --j) {
      sums[j] = before;
      if (j > 0) before += window[j - 1];
    }
    BELFRY_UNROLL
    for (int j = 0; j < kLanes; ++j) {
      behind += window[j + 2 * kRadius];
      sums[j] += behind;
    }
  }
  // LrnGeometry::Power of the lanes of a pack of x at `at`.
  BELFRY_GPU void Powers(const S* at, int c, const WidePack<T>& x, C (&power)[kLanes], C (&inverse)[kLanes]) const {
    C squares[kWindow], sums[kLanes];
    const auto square = [](C value) { return value * value; };
    Beside<T>(at, c, squares, square);
    BELFRY_UNROLL
    for (int j = 0; j < kLanes; ++j) squares[kRadius + j] = square(gpu::Widen(x.at[j]));
    Sum(squares, sums);
    const functor::NegativePower<C> raised(g.beta);
    BELFRY_UNROLL
    for (int j = 0; j < kLanes; ++j) power[j] = raised(g.bias + g.alpha * sums[j], inverse[j]);
  }

 protected:
  static constexpr int64_t kMaxPacks = gpu::TeamSize(gpu::kLongestRowOfWarp + 1);
  static constexpr int kPerThread = gpu::PerThread(1);
};

template <class T>
struct PackedForward : LrnPacks<T> {
  using Packs = LrnPacks<T>;
  using C = typename Packs::C;
  const gpu::Stored<T>* x;
  gpu::Stored<T>* y;

  BELFRY_GPU void operator()(int64_t index, const gpu::Team& team, void*) const {
    WidePack<T> kept[Packs::kPerThread];
    this->ForEachPack(index, team, [&](int k, int, int64_t at, int c) {
      C power[Packs::kLanes], inverse[Packs::kLanes];
      kept[k] = PackAt<T, Packs::kLanes>(x + at);
      this->Powers(x + at, c, kept[k], power, inverse);
      BELFRY_UNROLL
      for (int j = 0; j < Packs::kLanes; ++j) {
        kept[k].at[j] = gpu::Narrow<T>(gpu::Widen(kept[k].at[j]) * power[j]);
      }
    });
    team.Wait();
    this->ForEachPack(index, team, [&](int k, int, int64_t at, int) { StorePack<T, Packs::kLanes>(y + at, kept[k]); });
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
                  if constexpr (1 < kWideLanes<T>) {
                    if (LrnPacks<T>::Support(g) && AreAligned({x, y})) {
                      const PackedForward<T> packed{LrnPacks<T>(g), x, y};
                      return gpu::ForEachBlock(*at.stream, packed.blocks(), 0, packed);
                    }
                  }
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

// The same in packs; neighbours find a pack's summands in shared memory.
template <class T>
struct PackedBackward : LrnPacks<T> {
  using Packs = LrnPacks<T>;
  using C = typename Packs::C;
  const gpu::Stored<T>*dy, *x;
  gpu::Stored<T>* dx;
  bool masked;

  struct Kept {
    WidePack<T> x;
    C direct[Packs::kLanes], inner[Packs::kWindow];
  };
  BELFRY_GPU void Begin(int64_t at, int c, Kept& kept, C* shared) const {
    C power[Packs::kLanes], inverse[Packs::kLanes];
    kept.x = PackAt<T, Packs::kLanes>(x + at);
    this->Powers(x + at, c, kept.x, power, inverse);
    const WidePack<T> slopes = PackAt<T, Packs::kLanes>(dy + at);
    BELFRY_UNROLL
    for (int j = 0; j < Packs::kLanes; ++j) {
      kept.direct[j] = gpu::Widen(slopes.at[j]) * power[j];
      kept.inner[Packs::kRadius + j] = kept.direct[j] * gpu::Widen(kept.x.at[j]) * inverse[j];
    }
    BELFRY_UNROLL
    for (int j = 0; j < Packs::kLanes; j += Packs::kRadius) {
      PackOf<C, Packs::kRadius> some;
      BELFRY_UNROLL
      for (int l = 0; l < Packs::kRadius; ++l) some.at[l] = kept.inner[Packs::kRadius + j + l];
      StorePack<C, Packs::kRadius>(shared + j, some);
    }
  }
  BELFRY_GPU void Finish(int64_t at, int c, Kept& kept, const C* shared) const {
    const C factor = C(-2) * this->g.alpha * static_cast<C>(this->g.beta);
    C sums[Packs::kLanes];
    this->template Beside<C>(shared, c, kept.inner, [](C value) { return value; });
    this->Sum(kept.inner, sums);
    BELFRY_UNROLL
    for (int j = 0; j < Packs::kLanes; ++j) {
      const C value = gpu::Widen(kept.x.at[j]);
      kept.x.at[j] = gpu::Narrow<T>(!masked || value > 0 ? kept.direct[j] + factor * value * sums[j] : C(0));
    }
    StorePack<T, Packs::kLanes>(dx + at, kept.x);
  }
  BELFRY_GPU void operator()(int64_t index, const gpu::Team& team, void* memory) const {
    C* const shared = static_cast<C*>(memory);
    Kept kept[Packs::kPerThread];
    this->ForEachPack(index, team,
                      [&](int k, int i, int64_t at, int c) { Begin(at, c, kept[k], shared + i * Packs::kLanes); });
    team.Wait();
    this->ForEachPack(index, team,
                      [&](int k, int i, int64_t at, int c) { Finish(at, c, kept[k], shared + i * Packs::kLanes); });
  }
};

template <class T>
absl::StatusOr<Kernel> MakeLrnGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const LrnGeometry<C> g(spec);
  return Kernel{[g, masked = spec.attrs.Bool("masked")](const KernelContext& at) {
                  const S *dy = at.input<S>(0), *x = at.input<S>(1);
                  S* dx = at.output<S>(0);
                  if constexpr (1 < kWideLanes<T>) {
                    if (LrnPacks<T>::Support(g) && AreAligned({dy, x, dx})) {
                      const PackedBackward<T> packed{LrnPacks<T>(g), dy, x, dx, masked};
                      return gpu::ForEachBlock(*at.stream, packed.blocks(), packed.shared_bytes(), packed);
                    }
                  }
                  return Backward<T>(*at.stream, g, static_cast<C*>(at.workspace), masked, dy, x, dx);
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
