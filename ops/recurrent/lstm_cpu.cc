#include "framework/base/status.h"
#include "ops/recurrent/lstm_impl.h"
#include "ops/recurrent/unroll_impl.h"
#include "ops/simd/math_impl.h"

namespace belfry::ops::recurrent {
namespace {

// Its rows are the gates and the cell.
template <class T>
struct LstmCell {
  using C = Compute<T>;
  static constexpr int64_t kRows = 5;
  Problem p;
  const T *projection, *initial;  // `initial` may be null
  C* cells;
  T *gates, *last;

  void Start(int64_t batch, Rows<C> own) const {
    LoadRow(initial == nullptr ? nullptr : initial + batch * p.h, p.h, own[4]);
  }
  void Load(int64_t batch, int64_t step, Rows<C> own) const {
    for (int k = 0; k < 4; ++k) LoadRow(projection + 4 * p.At(batch, step) + k * p.h, p.h, own[k]);
  }
  void Save(int64_t batch, int64_t step, Rows<C> own) const {
    for (int k = 0; k < 4; ++k) Store(own[k], p.h, gates + 4 * p.At(batch, step) + k * p.h);
    Store(own[4], p.h, cells + p.At(batch, step));
  }
  void Skip(int64_t batch, int64_t step) const {
    std::fill_n(gates + 4 * p.At(batch, step), 4 * p.h, T{});
    std::fill_n(cells + p.At(batch, step), p.h, C(0));
  }
  void Finish(int64_t batch, Rows<C> own) const { Store(own[4], p.h, last + batch * p.h); }

  void Step(const C* sums, const C*, Rows<C> own, C* after) const {
    constexpr int64_t kCount = kLanes<C>;
    C *const gi = own[0], *const gf = own[1], *const gg = own[2], *const go = own[3], *const cell = own[4];
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C i = simd::Sigmoid(sums[j] + gi[j]), f = simd::Sigmoid(sums[kCount + j] + gf[j]);
      const C g = simd::Tanh(sums[2 * kCount + j] + gg[j]), o = simd::Sigmoid(sums[3 * kCount + j] + go[j]);
      const C c = f * cell[j] + i * g;
      gi[j] = i, gf[j] = f, gg[j] = g, go[j] = o, cell[j] = c;
      after[j] = o * simd::Tanh(c);
    }
  }
};

// The state of a sequence is the gradient of its cell.
template <class T>
struct LstmGradCell {
  using C = Compute<T>;
  Problem p;
  const T *gates, *initial, *dlast;  // `initial` may be null
  const C* cells;
  T *dprojection, *dinitial;

  void Start(int64_t batch, C* state) const { Load(dlast + batch * p.h, p.h, state); }
  void Skip(int64_t batch, int64_t step) const { std::fill_n(dprojection + 4 * p.At(batch, step), 4 * p.h, T{}); }
  void Finish(int64_t batch, const C* state) const { Store(state, p.h, dinitial + batch * p.h); }

  void Step(const UnitRange& at, C* dh, C* state, C* slopes) const {
    constexpr int64_t kCount = kLanes<C>;
    const int64_t from = p.At(at.batch, at.step), first = 4 * from + at.unit;
    alignas(64) C gate[4 * kCount], cell[kCount], before[kCount] = {}, dcell[kCount], dbefore[kCount];
    for (int k = 0; k < 4; ++k) LoadUnits(gates + first + k * p.h, at.count, gate + k * kCount);
    LoadUnits(cells + from + at.unit, at.count, cell);
    if (at.step > 0) {
      LoadUnits(cells + from - p.h + at.unit, at.count, before);
    } else if (initial != nullptr) {
      LoadUnits(initial + at.batch * p.h + at.unit, at.count, before);
    }
    LoadUnits(state, at.count, dcell);
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C i = gate[j], f = gate[kCount + j], g = gate[2 * kCount + j], o = gate[3 * kCount + j];
      const C squashed = simd::Tanh(cell[j]);
      const C slope = dcell[j] + dh[j] * o * (1 - squashed * squashed);
      slopes[j] = slope * g * i * (1 - i);
      slopes[kCount + j] = slope * before[j] * f * (1 - f);
      slopes[2 * kCount + j] = slope * i * (1 - g * g);
      slopes[3 * kCount + j] = dh[j] * squashed * o * (1 - o);
      dbefore[j] = slope * f;
    }
    std::fill_n(dh, kCount, C(0));
    StoreUnits(dbefore, at.count, state);
    for (int k = 0; k < 4; ++k) StoreUnits(slopes + k * kCount, at.count, dprojection + first + k * p.h);
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
