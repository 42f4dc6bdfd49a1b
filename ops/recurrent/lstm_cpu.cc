#include "ops/common/vector_math_impl.h"
#include "ops/recurrent/lstm_impl.h"
#include "ops/recurrent/unroll_impl.h"

namespace belfry::ops::recurrent {
namespace {

template <class T>
struct LstmCell {
  using C = Compute<T>;
  Problem p;
  const T *projection, *initial;  // `initial` may be null
  C* cells;
  T *gates, *last;

  int64_t GatesAt(const Place& at) const { return 4 * p.At(at.batch, at.step) + at.unit; }
  int64_t CellsAt(const Place& at) const { return p.At(at.batch, at.step) + at.unit; }
  void LoadBefore(const Place& at, C* to) const {
    if (at.step > 0) return LoadUnits(cells + CellsAt(at) - p.h, at.count, to);
    if (initial != nullptr) return LoadUnits(initial + at.batch * p.h + at.unit, at.count, to);
    std::fill_n(to, kLanes<C>, C(0));
  }

  void Step(const Place& at, C* sums, const C*, C* after) const {
    constexpr int64_t kCount = kLanes<C>;
    alignas(64) C projected[4 * kCount], cell[kCount], h[kCount];
    for (int gate = 0; gate < 4; ++gate) {
      LoadUnits(projection + GatesAt(at) + gate * p.h, at.count, projected + gate * kCount);
    }
    LoadBefore(at, cell);
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C i = SigmoidOf(sums[j] + projected[j]), f = SigmoidOf(sums[kCount + j] + projected[kCount + j]);
      const C g = TanhOf(sums[2 * kCount + j] + projected[2 * kCount + j]);
      const C o = SigmoidOf(sums[3 * kCount + j] + projected[3 * kCount + j]);
      projected[j] = i, projected[kCount + j] = f, projected[2 * kCount + j] = g, projected[3 * kCount + j] = o;
      cell[j] = f * cell[j] + i * g;
      h[j] = o * TanhOf(cell[j]);
    }
    for (int gate = 0; gate < 4; ++gate) {
      StoreUnits(projected + gate * kCount, at.count, gates + GatesAt(at) + gate * p.h);
    }
    StoreUnits(cell, at.count, cells + CellsAt(at));
    std::copy_n(h, kCount, after);
  }

  void StoreLast() const {
    for (int64_t batch = 0; batch < p.n; ++batch) {
      T* const to = last + batch * p.h;
      if (p.t > 0) {
        Store(cells + p.At(batch, p.t - 1), p.h, to);
      } else if (initial != nullptr) {
        std::copy_n(initial + batch * p.h, p.h, to);
      } else {
        std::fill_n(to, p.h, T(0));
      }
    }
  }
};

// The state of a sequence is the gradient of its cell.
template <class T>
struct LstmGradCell {
  using C = Compute<T>;
  LstmCell<T> forward;
  const T *gates, *dlast;
  T *dgates, *dinitial;

  void Start(int64_t batch, C* state) const { Load(dlast + batch * forward.p.h, forward.p.h, state); }
  void Finish(int64_t batch, const C* state) const { Store(state, forward.p.h, dinitial + batch * forward.p.h); }

  void Step(const Place& at, C* dh, C* state, C* slopes) const {
    constexpr int64_t kCount = kLanes<C>;
    alignas(64) C gate[4 * kCount], cell[kCount], before[kCount], dcell[kCount], dbefore[kCount];
    for (int k = 0; k < 4; ++k) {
      LoadUnits(gates + forward.GatesAt(at) + k * forward.p.h, at.count, gate + k * kCount);
    }
    LoadUnits(forward.cells + forward.CellsAt(at), at.count, cell);
    forward.LoadBefore(at, before);
    LoadUnits(state, at.count, dcell);
#pragma omp simd
    for (int64_t j = 0; j < kCount; ++j) {
      const C i = gate[j], f = gate[kCount + j], g = gate[2 * kCount + j], o = gate[3 * kCount + j];
      const C squashed = TanhOf(cell[j]);
      const C slope = dcell[j] + dh[j] * o * (1 - squashed * squashed);
      slopes[j] = slope * g * i * (1 - i);
      slopes[kCount + j] = slope * before[j] * f * (1 - f);
      slopes[2 * kCount + j] = slope * i * (1 - g * g);
      slopes[3 * kCount + j] = dh[j] * squashed * o * (1 - o);
      dbefore[j] = slope * f;
    }
    std::fill_n(dh, kCount, C(0));
    StoreUnits(dbefore, at.count, state);
    for (int k = 0; k < 4; ++k) {
      StoreUnits(slopes + k * kCount, at.count, dgates + forward.GatesAt(at) + k * forward.p.h);
    }
  }
};

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeLstm(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Forward<T, 4> forward(p);
  const bool given = spec.inputs.size() > 2;
  return Kernel{[=](const KernelContext& context) {
                  const LstmCell<T> cell = {p,
                                            context.input<T>(0),
                                            given ? context.input<T>(3) : nullptr,
                                            context.output<Compute<T>>(3),
                                            context.output<T>(4),
                                            context.output<T>(2)};
                  forward.Run({context.input<T>(1), given ? context.input<T>(2) : nullptr, context.output<T>(0),
                               context.output<T>(1)},
                              cell, context.workspace);
                  cell.StoreLast();
                  return absl::OkStatus();
                },
                forward.workspace_bytes()};
}

template <class T>
absl::StatusOr<Kernel> MakeLstmGrad(const KernelSpec& spec) {
  const Problem p = MakeProblem(spec);
  const Backward<T, 4> backward(p);
  const bool given = spec.inputs.size() > 6;
  return Kernel{[=](const KernelContext& context) {
                  using C = Compute<T>;
                  const LstmGradCell<T> cell = {
                      {p, nullptr, given ? context.input<T>(6) : nullptr, const_cast<C*>(context.input<C>(2))},
                      context.input<T>(0),
                      context.input<T>(5),
                      context.output<T>(0),
                      context.output<T>(2)};
                  backward.Run({context.input<T>(1), context.input<T>(3), context.input<T>(4), context.output<T>(1)},
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
