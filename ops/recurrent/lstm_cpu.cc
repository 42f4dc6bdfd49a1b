#include "framework/base/status.h"
#include "ops/recurrent/gates_impl.h"
#include "ops/recurrent/lstm_impl.h"
#include "ops/recurrent/unroll_impl.h"

namespace belfry::ops::recurrent {
namespace {

template <class T>
struct LstmCell {
  using C = Compute<T>;
  using V = Lanes<C>;
  Problem p;
  const T *projection, *initial;  // `initial` may be null
  C* cells;
  T *gates, *last;

  void Skip(int64_t batch, int64_t step) const {
    std::fill_n(gates + 4 * p.At(batch, step), 4 * p.h, T{});
    std::fill_n(cells + p.At(batch, step), p.h, C(0));
  }
  void Finish(int64_t batch, int64_t steps) const {
    T* const to = last + batch * p.h;
    if (steps > 0) return Store(cells + p.At(batch, steps - 1), p.h, to);
    initial == nullptr ? std::fill_n(to, p.h, T{}) : std::copy_n(initial + batch * p.h, p.h, to);
  }

  [[gnu::always_inline]] V Step(const UnitRange& at, const C* sums, V) const {
    const int64_t from = p.At(at.batch, at.step) + at.unit, first = 4 * (from - at.unit) + at.unit;
    const auto sum = [&](int k) {
      return simd::Vector<C>::Load(sums + k * kLanes<C>) + LoadUnits(projection + first + k * p.h, at.count);
    };
    const auto keep = [&](V x, int k) { StoreUnits<T>(x, at.count, gates + first + k * p.h); };
    V before = {};
    if (at.step > 0) {
      before = LoadUnits(cells + from - p.h, at.count);
    } else if (initial != nullptr) {
      before = LoadUnits(initial + at.batch * p.h + at.unit, at.count);
    }
    const V i = GateSigmoid(sum(0)), f = GateSigmoid(sum(1)), g = GateTanh(sum(2)), o = GateSigmoid(sum(3));
    const V c = f * before + i * g;
    keep(i, 0), keep(f, 1), keep(g, 2), keep(o, 3);
    StoreUnits<C>(c, at.count, cells + from);
    return o * GateTanh(c);
  }
};

// The state of a sequence is the gradient of its cell.
template <class T>
struct LstmGradCell {
  using C = Compute<T>;
  using V = Lanes<C>;
  Problem p;
  const T *gates, *initial, *dlast;  // `initial` may be null
  const C* cells;
  T *dprojection, *dinitial;

  void Start(int64_t batch, C* state) const { LoadRow(dlast + batch * p.h, p.h, state); }
  void Skip(int64_t batch, int64_t step) const { std::fill_n(dprojection + 4 * p.At(batch, step), 4 * p.h, T{}); }
  void Finish(int64_t batch, const C* state) const { Store(state, p.h, dinitial + batch * p.h); }

  [[gnu::always_inline]] V Step(const UnitRange& at, V dh, C* state, V* slopes) const {
    const int64_t from = p.At(at.batch, at.step) + at.unit, first = 4 * (from - at.unit) + at.unit;
    const auto gate = [&](int k) { return LoadUnits(gates + first + k * p.h, at.count); };
    const V i = gate(0), f = gate(1), g = gate(2), o = gate(3);
    V before = {};
    if (at.step > 0) {
      before = LoadUnits(cells + from - p.h, at.count);
    } else if (initial != nullptr) {
      before = LoadUnits(initial + at.batch * p.h + at.unit, at.count);
    }
    const V squashed = GateTanh(LoadUnits(cells + from, at.count));
    const V slope = simd::Vector<C>::Load(state) + dh * o * (C(1) - squashed * squashed);
    slopes[0] = slope * g * i * (C(1) - i);
    slopes[1] = slope * before * f * (C(1) - f);
    slopes[2] = slope * i * (C(1) - g * g);
    slopes[3] = dh * squashed * o * (C(1) - o);
    simd::Vector<C>::Store(slope * f, state);
    for (int k = 0; k < 4; ++k) StoreUnits<T>(slopes[k], at.count, dprojection + first + k * p.h);
    return V{};
  }
};

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeLstm(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Forward<T, 4, LstmCell<T>> forward(p);
  const OptionalInputs optional = InputsAfter(2, spec);
  return Kernel{[=](const KernelContext& context) {
                  const int32_t* const lengths = optional.Lengths(context);
                  RETURN_IF_ERROR(CheckLengths(p, lengths));
                  const LstmCell<T> cell = {p,
                                            context.input<T>(0),
                                            optional.State<T>(context, 1),
                                            context.output<Compute<T>>(3),
                                            context.output<T>(4),
                                            context.output<T>(2)};
                  forward.Run({context.input<T>(1), optional.State<T>(context), lengths, context.output<T>(0),
                               context.output<T>(1)},
                              cell, context.workspace);
                  return absl::OkStatus();
                },
                forward.workspace_bytes()};
}

template <class T>
absl::StatusOr<Kernel> MakeLstmGrad(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Backward<T, 4> backward(p);
  const OptionalInputs optional = InputsAfter(6, spec);
  return Kernel{[=](const KernelContext& context) {
                  const LstmGradCell<T> cell = {p,
                                                context.input<T>(0),
                                                optional.State<T>(context),
                                                context.input<T>(5),
                                                context.input<Compute<T>>(2),
                                                context.output<T>(0),
                                                context.output<T>(2)};
                  backward.Run({context.input<T>(1), context.input<T>(3), context.input<T>(4),
                                optional.Lengths(context), context.output<T>(1)},
                               cell, context.workspace);
                  return absl::OkStatus();
                },
                backward.workspace_bytes()};
}

template absl::StatusOr<Kernel> MakeLstm<float>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstm<double>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstm<Half>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstm<BFloat16>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstmGrad<float>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstmGrad<double>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstmGrad<Half>(const KernelSpec&);
template absl::StatusOr<Kernel> MakeLstmGrad<BFloat16>(const KernelSpec&);

}  // namespace belfry::ops::recurrent
