#include "framework/base/status.h"
#include "ops/recurrent/gates_impl.h"
#include "ops/recurrent/gru_impl.h"
#include "ops/recurrent/unroll_impl.h"

namespace belfry::ops::recurrent {
namespace {

template <class T>
struct GruCell {
  using C = Compute<T>;
  using V = Lanes<C>;
  Problem p;
  const T *projection, *biases;
  T *gates, *candidates;

  void Skip(int64_t batch, int64_t step) const {
    std::fill_n(gates + 3 * p.At(batch, step), 3 * p.h, T{});
    std::fill_n(candidates + p.At(batch, step), p.h, T{});
  }
  void Finish(int64_t, int64_t) const {}

  [[gnu::always_inline]] V Step(const UnitRange& at, const C* sums, V before) const {
    const int64_t from = p.At(at.batch, at.step) + at.unit, first = 3 * (from - at.unit) + at.unit;
    const auto projected = [&](int k) { return LoadUnits(projection + first + k * p.h, at.count); };
    const auto sum = [&](int k) {
      return simd::Vector<C>::Load(sums + k * kLanes<C>) + LoadUnits(biases + k * p.h + at.unit, at.count);
    };
    const auto keep = [&](V x, int k) { StoreUnits<T>(x, at.count, gates + first + k * p.h); };
    const V r = GateSigmoid(sum(0) + projected(0)), z = GateSigmoid(sum(1) + projected(1));
    const V c = sum(2), n = GateTanh(projected(2) + r * c);
    keep(r, 0), keep(z, 1), keep(n, 2);
    StoreUnits<T>(c, at.count, candidates + from);
    return n + z * (before - n);
  }
};

// It needs no state of its own.
template <class T>
struct GruGradCell {
  using C = Compute<T>;
  using V = Lanes<C>;
  Problem p;
  const T *gates, *candidates, *y, *initial;  // `initial` may be null
  T *dprojection, *dproducts;

  void Start(int64_t, C*) const {}
  void Skip(int64_t batch, int64_t step) const {
    for (T* const gradient : {dprojection, dproducts}) {
      std::fill_n(gradient + 3 * p.At(batch, step), 3 * p.h, T{});
    }
  }
  void Finish(int64_t, const C*) const {}

  [[gnu::always_inline]] V Step(const UnitRange& at, V dh, C*, V* slopes) const {
    const int64_t from = p.At(at.batch, at.step) + at.unit, first = 3 * (from - at.unit) + at.unit;
    const auto gate = [&](int k) { return LoadUnits(gates + first + k * p.h, at.count); };
    const V r = gate(0), z = gate(1), n = gate(2), candidate = LoadUnits(candidates + from, at.count);
    V before = {};
    if (at.step > 0) {
      before = LoadUnits(y + from - p.h, at.count);
    } else if (initial != nullptr) {
      before = LoadUnits(initial + at.batch * p.h + at.unit, at.count);
    }
    const V dn = dh * (C(1) - z) * (C(1) - n * n);
    slopes[0] = dn * candidate * r * (C(1) - r);
    slopes[1] = dh * (before - n) * z * (C(1) - z);
    slopes[2] = dn * r;
    for (int k = 0; k < 3; ++k) {
      StoreUnits<T>(k == 2 ? dn : slopes[k], at.count, dprojection + first + k * p.h);
      StoreUnits<T>(slopes[k], at.count, dproducts + first + k * p.h);
    }
    return dh * z;
  }
};

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeGru(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Forward<T, 3, GruCell<T>> forward(p);
  const OptionalInputs optional = InputsAfter(3, spec);
  return Kernel{[=](const KernelContext& context) {
                  const int32_t* const lengths = optional.Lengths(context);
                  RETURN_IF_ERROR(CheckLengths(p, lengths));
                  const GruCell<T> cell = {p, context.input<T>(0), context.input<T>(2), context.output<T>(2),
                                           context.output<T>(3)};
                  forward.Run({context.input<T>(1), optional.State<T>(context), lengths, context.output<T>(0),
                               context.output<T>(1)},
                              cell, context.workspace);
                  return absl::OkStatus();
                },
                forward.workspace_bytes()};
}

template <class T>
absl::StatusOr<Kernel> MakeGruGrad(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Backward<T, 3> backward(p);
  const OptionalInputs optional = InputsAfter(6, spec);
  return Kernel{[=](const KernelContext& context) {
                  const GruGradCell<T> cell = {p,
                                               context.input<T>(0),
                                               context.input<T>(2),
                                               context.input<T>(3),
                                               optional.State<T>(context),
                                               context.output<T>(0),
                                               context.output<T>(2)};
                  backward.Run({context.input<T>(1), context.input<T>(4), context.input<T>(5),
                                optional.Lengths(context), context.output<T>(1)},
                               cell, context.workspace);
                  return absl::OkStatus();
                },
                backward.workspace_bytes()};
}

template absl::StatusOr<Kernel> MakeGru<float>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGru<double>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGru<Half>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGru<BFloat16>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGruGrad<float>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGruGrad<double>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGruGrad<Half>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeGruGrad<BFloat16>(const KernelSpec&);

}  // namespace belfry::ops::recurrent
