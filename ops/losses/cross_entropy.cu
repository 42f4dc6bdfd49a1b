#include <cmath>
#include <limits>
#include <vector>

#include "framework/graph/op_def.h"
#include "ops/gpu/divider_impl.h"
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

// backprop may alias the logits: a thread reads each of its elements before writing it, and touches no others.
template <class T, class Label>
struct Sparse {
  using C = gpu::Compute<T>;
  Targets<C> t;
  IgnoreLabel ignored;
  const gpu::Stored<T>* logits;
  const Label* labels;
  C* loss;
  gpu::Stored<T>* backprop;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const gpu::Stored<T>* x = logits + row * t.n;
    gpu::Stored<T>* dx = backprop + row * t.n;
    const int64_t label = labels[row];
    if (ignored.Is(label)) {  // for the whole team, which meets in the sums below
      for (int64_t k = team.rank; k < t.n; k += team.size) dx[k] = gpu::Narrow<T>(C(0));
      if (team.rank == 0) loss[row] = 0;
      return;
    }
    const bool valid = label >= 0 && label < t.n;
    TopAndSum<C> own;
    for (int64_t k = team.rank; k < t.n; k += team.size) own.Add(gpu::Widen(x[k]), C(1));
    const TopAndSum<C> all = own.OfTeam(team, C(1));
    const C scale = valid ? 1 / all.sum : std::numeric_limits<C>::quiet_NaN(), log_sum = std::log(all.sum);
    C part = 0;
    for (int64_t k = team.rank; k < t.n; k += team.size) {
      const C shifted = gpu::Widen(x[k]) - all.top;
      if (k == label) part -= t.on * (shifted - log_sum);
      if (t.off > 0) part -= t.off * shifted;
      dx[k] = gpu::Narrow<T>(std::exp(shifted) * scale - t.off - (k == label ? t.on : C(0)));
    }
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
  return Kernel{[t = Targets<gpu::Compute<T>>(spec), ignored = IgnoreLabel(spec.attrs)](const KernelContext& at) {
    return ForEachRowOf(*at.stream, t.rows, t.n,
                        Sparse<T, Label>{t, ignored, at.input<S>(0), at.input<Label>(1), at.output<gpu::Compute<T>>(0),
                                         at.output<S>(1)});
  }};
}
template <class T>
absl::StatusOr<Kernel> MakeSparse(const KernelSpec& spec) {
  return spec.inputs[1].dtype == DType::kInt32 ? MakeSparseOf<T, int32_t>(spec) : MakeSparseOf<T, int64_t>(spec);
}
template <class T>
absl::StatusOr<Kernel> MakeDense(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  return Kernel{[t = Targets<gpu::Compute<T>>(spec)](const KernelContext& at) {
    return ForEachRowOf(*at.stream, t.rows, t.n,
                        Dense<T>{t, at.input<S>(0), at.input<S>(1), at.output<gpu::Compute<T>>(0), at.output<S>(1)});
  }};
}

// dlogits = backprop with each row scaled by the gradient of its loss.
template <class T>
absl::Status ScaleRows(Stream& stream, int64_t elements, const Divider& n, const gpu::Compute<T>* dloss,
                       const gpu::Stored<T>* backprop, gpu::Stored<T>* dlogits) {
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    dlogits[i] = gpu::Narrow<T>(gpu::Widen(backprop[i]) * dloss[n.Quotient(i)]);
  });
}
template <class T>
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t elements = spec.outputs[0].shape.elements();
  const Divider n = elements == 0 ? Divider() : Divider(spec.outputs[0].shape[-1], elements);
  return Kernel{[elements, n](const KernelContext& at) {
    return ScaleRows<T>(*at.stream, elements, n, at.input<gpu::Compute<T>>(0), at.input<S>(1), at.output<S>(0));
  }};
}

// The same, with zeros in the rows of ignored examples, whatever the gradient of their loss.
template <class T, class Label>
absl::Status ScaleOtherRows(Stream& stream, int64_t elements, const Divider& n, int64_t ignored, const Label* labels,
                            const gpu::Compute<T>* dloss, const gpu::Stored<T>* backprop, gpu::Stored<T>* dlogits) {
  return gpu::ForEach(stream, elements, [=] BELFRY_GPU(int64_t i) {
    using C = gpu::Compute<T>;
    const int64_t row = n.Quotient(i);
    const bool is_ignored = labels[row] == ignored;
    dlogits[i] = gpu::Narrow<T>(is_ignored ? C(0) : gpu::Widen(backprop[i]) * dloss[row]);
  });
}
template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseGradOf(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t elements = spec.outputs[0].shape.elements(), ignored = spec.attrs.Ints("ignore_label")[0];
  const Divider n = elements == 0 ? Divider() : Divider(spec.outputs[0].shape[-1], elements);
  return Kernel{[elements, n, ignored](const KernelContext& at) {
    return ScaleOtherRows<T, Label>(*at.stream, elements, n, ignored, at.input<Label>(2), at.input<gpu::Compute<T>>(0),
                                    at.input<S>(1), at.output<S>(0));
  }};
}
template <class T>
absl::StatusOr<Kernel> MakeSparseGrad(const KernelSpec& spec) {
  return spec.inputs[2].dtype == DType::kInt32 ? MakeSparseGradOf<T, int32_t>(spec)
                                               : MakeSparseGradOf<T, int64_t>(spec);
}

}  // namespace

void AddCrossEntropyGpuKernels(KernelTable& table) {
  table.AddKernels("SparseSoftmaxCrossEntropyWithLogits", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
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
