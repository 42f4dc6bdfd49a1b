#include "framework/base/status.h"
#include "ops/recurrent/gru_impl.h"
#include "ops/recurrent/unroll_impl.h"
#include "ops/simd/math_impl.h"

namespace belfry::ops::recurrent {
namespace {

// Its rows are the gates, the candidate before its reset, and the biases.
template <class T>
struct GruCell {
  using C = Compute<T>;
  static constexpr int64_t kRows = 7;
  Problem p;
  const T *projection, *biases;
  T *gates, *candidates;

  void Start(int64_t, Rows<C> own) const {
    for (int k = 0; k < 3; ++k) LoadRow(biases + k * p.h, p.h, own[4 + k]);
  }
  void Load(int64_t batch, int64_t step, Rows<C> own) const {
    for (int k = 0; k < 3; ++k) LoadRow(projection + 3 * p.At(batch, step) + k * p.h, p.h, own[k]);
  }
  void Save(int64_t batch, int64_t step, Rows<C> own) const {
    for (int k = 0; k < 3; ++k) Store(own[k], p.h, gates + 3 * p.At(batch, step) + k * p.h);
    Store(own[3], p.h, candidates + p.At(batch, step));
  }
  void Skip(int64_t batch, int64_t step) const {
    std::fill_n(gates + 3 * p.At(batch, step), 3 * p.h, T{});
    std::fill_n(candidates + p.At(batch, step), p.h, T{});
  }
  void Finish(int64_t, Rows<C>) const {}

  void Step(const C* sums, const C* before, Rows<C> own, C* after) const {
    constexpr int64_t kCount = kLanes<C>;
    C *const gr = own[0], *const gz = own[1], *const gn = own[2], *const candidate = own[3];
    const C *const br = own[4], *const bz = own[5], *const bn = own[6];
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C r = simd::Sigmoid(sums[j] + br[j] + gr[j]), z = simd::Sigmoid(sums[kCount + j] + bz[j] + gz[j]);
      const C c = sums[2 * kCount + j] + bn[j], n = simd::Tanh(gn[j] + r * c);
      gr[j] = r, gz[j] = z, gn[j] = n, candidate[j] = c;
      after[j] = n + z * (before[j] - n);
    }
  }
};

// It needs no state of its own.
template <class T>
struct GruGradCell {
  using C = Compute<T>;
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

  void Step(const UnitRange& at, C* dh, C*, C* slopes) const {
    constexpr int64_t kCount = kLanes<C>;
    const int64_t from = p.At(at.batch, at.step), first = 3 * from + at.unit;
    alignas(64) C gate[3 * kCount], candidate[kCount], before[kCount] = {}, dn[kCount];
    for (int k = 0; k < 3; ++k) LoadUnits(gates + first + k * p.h, at.count, gate + k * kCount);
    LoadUnits(candidates + from + at.unit, at.count, candidate);
    if (at.step > 0) {
      LoadUnits(y + from - p.h + at.unit, at.count, before);
    } else if (initial != nullptr) {
      LoadUnits(initial + at.batch * p.h + at.unit, at.count, before);
    }
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C r = gate[j], z = gate[kCount + j], n = gate[2 * kCount + j];
      dn[j] = dh[j] * (1 - z) * (1 - n * n);
      slopes[j] = dn[j] * candidate[j] * r * (1 - r);
      slopes[kCount + j] = dh[j] * (before[j] - n) * z * (1 - z);
      slopes[2 * kCount + j] = dn[j] * r;
      dh[j] *= z;
    }
    for (int k = 0; k < 3; ++k) {
      StoreUnits(k == 2 ? dn : slopes + k * kCount, at.count, dprojection + first + k * p.h);
      StoreUnits(slopes + k * kCount, at.count, dproducts + first + k * p.h);
    }
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
