#include <cmath>
#include <limits>
#include <vector>

#include "framework/graph/op_def.h"
#include "ops/common/index_type_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/packs_gpu_impl.h"
#include "ops/gpu/rows_gpu_impl.h"
#include "ops/losses/losses_ops.h"

namespace belfry::ops {
namespace {

// Label smoothing: the target of a class is `on` times its label plus `off`.
template <class C>
struct Targets {
  int64_t rows, n;
  C on, off;

  explicit Targets(const KernelSpec& spec) : rows(spec.outputs[0].shape.elements()), n(spec.outputs[1].shape[-1]) {
    const double smoothing = spec.attrs.Float("label_smoothing");
    on = static_cast<C>(1 - smoothing);
    off = static_cast<C>(n > 0 ? smoothing / static_cast<double>(n) : 0);
  }
};

// The label of examples that have no loss.
struct IgnoreLabel {
  bool any = false;
  int64_t label = 0;

  explicit IgnoreLabel(const Attrs& attrs) {
    const std::vector<int64_t>& labels = attrs.Ints("ignore_label");
    any = !labels.empty();
    if (any) label = labels[0];
  }
  constexpr bool Is(int64_t other) const { return any && other == label; }
};

// With dloss, backprop is scaled by it: the gradient of the logits, which is 0 in rows of ignored examples.
// backprop may alias the logits: a thread reads each of its elements before writing it, and touches no others.
template <class T, class Label>
struct Sparse {
  using C = gpu::Compute<T>;
  Targets<C> t;
  IgnoreLabel ignored;
  bool packs;  // logits and backprop begin where packs may
  const gpu::Stored<T>* logits;
  const Label* labels;
  C* loss;
  gpu::Stored<T>* backprop;
  const C* dloss = nullptr;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const gpu::Stored<T>* x = logits + row * t.n;
    gpu::Stored<T>* dx = backprop + row * t.n;
    const int64_t label = labels[row];
    if (ignored.Is(label)) {  // for the whole team, which meets in the sums below
      ForEachLanesOfRow<T>(x, t.n, packs, team, [dx](int64_t k, auto lanes) {
        PackOf<T, decltype(lanes)::value> none;
        for (auto& each : none.at) each = gpu::Narrow<T>(C(0));
        StorePack<T, decltype(lanes)::value>(dx + k, none);
      });
      if (team.rank == 0) loss[row] = 0;
      return;
    }
    const bool valid = label >= 0 && label < t.n;
    TopAndSum<C> own;
    ForEachLanesOfRow<T>(x, t.n, packs, team, [x, &own](int64_t k, auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const PackOf<T, kLanes> pack = PackAt<T, kLanes>(x + k);
      C values[kLanes];
      BELFRY_UNROLL
      for (int j = 0; j < kLanes; ++j) values[j] = gpu::Widen(pack.at[j]);
      own.Add(values, C(1));
    });
    const TopAndSum<C> all = own.OfTeam(team, C(1));
    const C scale = valid ? 1 / all.sum : std::numeric_limits<C>::quiet_NaN(), log_sum = std::log(all.sum);
    const C slope = dloss == nullptr ? C(1) : dloss[row];
    C part = 0;
    ForEachLanesOfRow<T>(x, t.n, packs, team,
                         [this, x, dx, label, scale, log_sum, slope, &all, &part](int64_t k, auto lanes) {
                           constexpr int kLanes = decltype(lanes)::value;
                           PackOf<T, kLanes> pack = PackAt<T, kLanes>(x + k);
                           const int64_t ahead = label - k;
                           const bool here = ahead >= 0 && ahead < kLanes;
                           BELFRY_UNROLL
                           for (int j = 0; j < kLanes; ++j) {
                             const C shifted = gpu::Widen(pack.at[j]) - all.top;
                             C share = std::exp(shifted) * scale - t.off;
                             if (t.off > 0) part -= t.off * shifted;
                             if (here && ahead == j) {
                               part -= t.on * (shifted - log_sum);
                               share -= t.on;
                             }
                             pack.at[j] = gpu::Narrow<T>(share * slope);
                           }
                           StorePack<T, kLanes>(dx + k, pack);
                         });
    C value = team.Sum(part);
    if (t.off > 0) value += t.off * static_cast<C>(t.n) * log_sum;
    if (team.rank == 0) loss[row] = valid ? value : scale;
  }
};

template <class T>
struct Dense {
  using C = gpu::Compute<T>;
  Targets<C> t;
  const gpu::Stored<T>*logits, *labels;
  C* loss;
  gpu::Stored<T>* backprop;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const int64_t first = row * t.n, end = first + t.n;
    TopAndSum<C> own;
    C total = 0;
    for (int64_t i = first + team.rank; i < end; i += team.size) {
      own.Add(gpu::Widen(logits[i]), C(1));
      total += t.on * gpu::Widen(labels[i]) + t.off;
    }
    const TopAndSum<C> all = own.OfTeam(team, C(1));
    total = team.Sum(total);
    const C scale = 1 / all.sum, log_sum = std::log(all.sum);
    C part = 0;
    for (int64_t i = first + team.rank; i < end; i += team.size) {
      const C shifted = gpu::Widen(logits[i]) - all.top, target = t.on * gpu::Widen(labels[i]) + t.off;
      // A class with target 0 contributes nothing even if its probability is 0: 0 log(0) = 0.
      if (target != 0) part -= target * (shifted - log_sum);
      backprop[i] = gpu::Narrow<T>(std::exp(shifted) * scale * total - target);
    }
    const C value = team.Sum(part);
    if (team.rank == 0) loss[row] = value;
  }
};

template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseOf(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  return Kernel{[t = Targets<C>(spec), ignored = IgnoreLabel(spec.attrs),
                 scales = spec.inputs.size() > 2](const KernelContext& at) {
    const S* const logits = at.input<S>(0);
    S* const backprop = at.output<S>(1);
    const Sparse<T, Label> body{t,
                                ignored,
                                AreAligned({logits, backprop}),
                                logits,
                                at.input<Label>(1),
                                at.output<C>(0),
                                backprop,
                                scales ? at.input<C>(2) : nullptr};
    return ForEachRowOf(*at.stream, t.rows, t.n, body);
  }};
}
template <class T>
absl::StatusOr<Kernel> MakeSparse(const KernelSpec& spec) {
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return MakeSparseOf<T, decltype(index)>(spec); });
}
template <class T>
absl::StatusOr<Kernel> MakeDense(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[t = Targets<gpu::Compute<T>>(spec)](const KernelContext& at) {
    return ForEachRowOf(*at.stream, t.rows, t.n,
                        Dense<T>{t, at.input<S>(0), at.input<S>(1), at.output<gpu::Compute<T>>(0), at.output<S>(1)});
  }};
}

// dlogits = backprop with each row scaled by the gradient of its loss, factor(row).
template <class T, class Factor>
absl::Status ScaleRows(Stream& stream, int64_t elements, const Divider& n, const gpu::Stored<T>* backprop,
                       gpu::Stored<T>* dlogits, const Factor& factor) {
  constexpr int kLanes = kWideLanes<T>;
  const bool aligned = AreAligned({backprop, dlogits});
  return gpu::ForEach(stream, (elements + kLanes - 1) / kLanes, [=] BELFRY_GPU(int64_t i) {
    const int64_t first = i * kLanes;
    const int lanes = elements - first < kLanes ? static_cast<int>(elements - first) : kLanes;
    PackOf<T, kLanes> pack = LoadLanes<T, kLanes>(backprop + first, lanes, aligned);
    int64_t row = n.Quotient(first), left = (row + 1) * n.divisor() - first;
    auto of = factor(row);
    BELFRY_UNROLL
    for (int j = 0; j < kLanes; ++j) {
      if (left == 0 && j < lanes) {
        of = factor(++row);
        left = n.divisor();
      }
      --left;
      pack.at[j] = gpu::Narrow<T>(of(gpu::Widen(pack.at[j])));
    }
    StoreLanes<T, kLanes>(dlogits + first, pack, lanes, aligned);
  });
}

template <class C>
struct RowFactor {
  C by;
  bool none;
  BELFRY_GPU C operator()(C x) const { return none ? C(0) : x * by; }
};
template <class C>
struct EveryRow {
  const C* dloss;
  BELFRY_GPU RowFactor<C> operator()(int64_t row) const { return {dloss[row], false}; }
};
// Zeros in the rows of ignored examples, whatever the gradient of their loss.
template <class C, class Label>
struct OtherRows {
  const C* dloss;
  const Label* labels;
  int64_t ignored;
  BELFRY_GPU RowFactor<C> operator()(int64_t row) const { return {dloss[row], labels[row] == ignored}; }
};

template <class T>
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t elements = spec.outputs[0].shape.elements();
  const Divider n = elements == 0 ? Divider() : Divider(spec.outputs[0].shape[-1], elements);
  return Kernel{[elements, n](const KernelContext& at) {
    return ScaleRows<T>(*at.stream, elements, n, at.input<S>(1), at.output<S>(0),
                        EveryRow<gpu::Compute<T>>{at.input<gpu::Compute<T>>(0)});
  }};
}

template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseGradOf(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t elements = spec.outputs[0].shape.elements(), ignored = spec.attrs.Ints("ignore_label")[0];
  const Divider n = elements == 0 ? Divider() : Divider(spec.outputs[0].shape[-1], elements);
  return Kernel{[elements, n, ignored](const KernelContext& at) {
    using C = gpu::Compute<T>;
    return ScaleRows<T>(*at.stream, elements, n, at.input<S>(1), at.output<S>(0),
                        OtherRows<C, Label>{at.input<C>(0), at.input<Label>(2), ignored});
  }};
}
template <class T>
absl::StatusOr<Kernel> MakeSparseGrad(const KernelSpec& spec) {
  return WithIndexType(spec.inputs[2].dtype, [&](auto index) { return MakeSparseGradOf<T, decltype(index)>(spec); });
}

}  // namespace

void AddCrossEntropyGpuKernels(KernelTable& table) {
  table.AddKernels("SparseSoftmaxCrossEntropyWithLogits", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeSparse<typename decltype(tag)::type>;
                   }));
  table.AddKernels("SparseCrossEntropyWithGradient", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeSparse<typename decltype(tag)::type>;
                   }));
  table.AddKernels("SoftmaxCrossEntropyWithLogits", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeDense<typename decltype(tag)::type>;
                   }));
  table.AddKernels("SparseCrossEntropyGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeSparseGrad<typename decltype(tag)::type>;
                   }));
  table.AddKernels("CrossEntropyGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeCrossEntropyGrad<typename decltype(tag)::type>;
                   }));
}

}  // namespace belfry::ops
