// The gradient of attention on CPUs. Probabilities are computed again, block by block, from the log-sum-exp of the
// forward pass: 2^(score - top) share, where top is the log-sum-exp and share 1, unless LosesSum. With delta = sum over
// a query's elements of dy y:
//   dv = p^T dy    ds = p (dy v^T - delta)    dq = ds k scale    dk = ds^T q scale
#include "framework/base/parallel.h"
#include "ops/attention/attention_impl.h"
#include "ops/attention/blocks_impl.h"

namespace belfry::ops::attention {
namespace {

// One thread's memory. A task is all that belongs to one head of keys, so that the order of its sums is fixed.
template <class C>
struct GradScratch {
  C *k, *v, *dk, *dv;         // [s, width]
  C *q, *dy, *dq, *y;         // [kQueries, width]
  C *qt, *dyt;                // [d, kQueries]
  C *probabilities, *slopes;  // [kKeys, kQueries]
  C *delta, *top, *share;     // [kQueries]

  static int64_t Elements(const Problem& p) {
    return 4 * (p.s + kQueries) * PaddedWidth<C>(p.d) + 2 * p.d * kQueries + 2 * kKeys * kQueries + 3 * kQueries;
  }
  GradScratch(const Problem& p, C* at) {
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    const int64_t width = PaddedWidth<C>(p.d), all = p.s * width, block = kQueries * width, square = kKeys * kQueries;
    k = take(all), v = take(all), dk = take(all), dv = take(all);
    q = take(block), dy = take(block), dq = take(block), y = take(block);
    qt = take(p.d * kQueries), dyt = take(p.d * kQueries);
    probabilities = take(square), slopes = take(square);
    delta = take(kQueries), top = take(kQueries), share = take(kQueries);
  }
};

template <class T>
struct GradOperands {
  Operands<T> in;
  const T *y, *dy;
  const Compute<T>* log_sum_exp;
  T *dq, *dk, *dv;
};

// The largest score and the inverse of the sum for those queries whose log-sum-exp lost it.
template <class T>
void FindSums(const Problem& p, const BlockPair& block, const T* mask, const Compute<T>* log_sum_exp,
              GradScratch<Compute<T>>& s) {
  using C = Compute<T>;
  const int64_t width = PaddedWidth<C>(p.d), keys = p.VisibleTo(block.query + block.queries - 1);
  const auto lost = [&](int64_t i) { return std::isfinite(log_sum_exp[i]) && LosesSum(log_sum_exp[i]); };
  const auto for_scores = [&](const auto& body) {
    for (int64_t key = 0; key < keys; key += kKeys) {
      const BlockPair at(p, block.batch, block.head, block.query, key);
      FindScores(p, at, s.k + key * width, width, s.qt, mask, s.probabilities);
      for (int64_t j = 0; j < at.keys; ++j) {
        for (int64_t i = 0; i < at.queries; ++i) {
          if (lost(i)) body(i, s.probabilities[j * kQueries + i]);
        }
      }
    }
  };
  for (int64_t i = 0; i < block.queries; ++i) {
    if (lost(i)) s.top[i] = -std::numeric_limits<C>::infinity(), s.share[i] = 0;
  }
  for_scores([&](int64_t i, C score) { s.top[i] = std::max(s.top[i], score); });
  for_scores([&](int64_t i, C score) { s.share[i] += std::exp2(score - s.top[i]); });
  for (int64_t i = 0; i < block.queries; ++i) {
    if (lost(i)) s.share[i] = 1 / s.share[i];
  }
}

// The block's queries and what belongs to them. A hidden or padding query has an infinite top, so that its
// probabilities are 0.
template <class T>
void LoadQueries(const Problem& p, const BlockPair& at, const GradOperands<T>& x, GradScratch<Compute<T>>& s) {
  using C = Compute<T>;
  const int64_t from = p.YAt(at.batch, at.query, at.head), width = PaddedWidth<C>(p.d);
  const Rows<C> q = LoadRows(x.in.q + p.QAt(at.batch, at.query, at.head), p.q_row, at.queries, p.d, true, s.q);
  const Rows<C> dy = LoadRows(x.dy + from, p.y_row, at.queries, p.d, true, s.dy);
  const Rows<C> y = LoadRows(x.y + from, p.y_row, at.queries, p.d, false, s.y);
  TransposeQueries(q, at.queries, p.d, p.scale * kLog2E, s.qt);
  TransposeQueries(dy, at.queries, p.d, 1, s.dyt);
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  std::fill_n(s.top, kQueries, kInfinity);
  std::fill_n(s.share, kQueries, C(1));
  std::fill_n(s.delta, kQueries, C(0));
  const C* const log_sum_exps = x.log_sum_exp + p.RowAt(at.batch, at.query, at.head);
  bool lost = false;
  for (int64_t i = 0; i < at.queries; ++i) {
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < p.d; ++j) sum += s.dy[i * width + j] * y.at[i * y.stride + j];
    const C log_sum_exp = log_sum_exps[i];
    if (log_sum_exp == -kInfinity) continue;
    lost = lost || LosesSum(log_sum_exp);
    s.delta[i] = sum;
    s.top[i] = log_sum_exp * static_cast<C>(kLog2E);
  }
  if (lost) FindSums(p, at, x.in.mask, log_sum_exps, s);
}

template <class C>
void ExponentiateScores(const BlockPair& at, const GradScratch<C>& s) {
  using V = Vector<C>;
  for (int64_t i = 0; i < at.queries; i += V::kLanes) {
    const typename V::Lanes top = V::Load(s.top + i), share = V::Load(s.share + i);
    C* to = s.probabilities + i;
    for (int64_t j = 0; j < at.keys; ++j, to += kQueries) {
      V::Store(simd::Exp2OfNegative(V::Load(to) - top) * share, to);
    }
  }
}

// slopes = probabilities (slopes - delta), and 0 where hidden.
template <class C>
void MultiplySlopes(const BlockPair& at, const GradScratch<C>& s) {
  using V = Vector<C>;
  for (int64_t i = 0; i < at.queries; i += V::kLanes) {
    const typename V::Lanes delta = V::Load(s.delta + i);
    const C* probability = s.probabilities + i;
    C* to = s.slopes + i;
    for (int64_t j = 0; j < at.keys; ++j, to += kQueries, probability += kQueries) {
      V::Store(V::Load(probability) * (V::Load(to) - delta), to);
    }
  }
  ForHidden<C>(at, [&](int64_t j, int64_t v, typename V::Mask visible) {
    C* const to = s.slopes + j * kQueries + v * V::kLanes;
    V::Store(V::Choose(visible, V::Load(to), typename V::Lanes{}), to);
  });
}

template <class T>
void AddGradients(const Problem& p, const BlockPair& at, const Rows<Compute<T>>& v, const T* mask,
                  GradScratch<Compute<T>>& s) {
  using C = Compute<T>;
  const int64_t width = PaddedWidth<C>(p.d), vectors = WholeVectors<C>(p.d), keys_at = at.key * width;
  FindScores(p, at, s.k + keys_at, width, s.qt, mask, s.probabilities);
  ExponentiateScores(at, s);
  Multiply<C, false, true>(at.keys, vectors, s.probabilities, kQueries, s.dy, width, s.dv + keys_at, width,
                           at.OverQueries());
  Multiply<C, false, false>(at.keys, WholeVectors<C>(at.queries), v.at, v.stride, s.dyt, kQueries, s.slopes, kQueries,
                            at.Scores<C>(p.d));
  MultiplySlopes(at, s);
  Multiply<C, false, true>(at.keys, vectors, s.slopes, kQueries, s.q, width, s.dk + keys_at, width, at.OverQueries());
  Multiply<C, true, true>(at.queries, vectors, s.slopes, kQueries, s.k + keys_at, width, s.dq, width, at.OverKeys());
}

// Stores rows times `factor`.
template <class T>
void StoreRows(Compute<T>* from, int64_t rows, int64_t d, double factor, T* to, int64_t to_row) {
  const int64_t width = PaddedWidth<Compute<T>>(d);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < d; ++j) from[i * width + j] *= static_cast<Compute<T>>(factor);
    Store(from + i * width, d, to + i * to_row);
  }
}

template <class T>
void RunGradTask(const Problem& p, int64_t batch, int64_t group, const GradOperands<T>& x, GradScratch<Compute<T>>& s) {
  using C = Compute<T>;
  const int64_t width = PaddedWidth<C>(p.d), keys_at = p.KAt(batch, 0, group), heads = p.h / p.g;
  LoadRows(PartAt(x.in.k, keys_at), p.k_row, p.s, p.d, true, s.k);
  const Rows<C> v = LoadRows(PartAt(x.in.v, keys_at), p.k_row, p.s, p.d, false, s.v);
  std::fill_n(s.dk, p.s * width, C(0));
  std::fill_n(s.dv, p.s * width, C(0));
  for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
    for (int64_t query = 0; query < p.t; query += kQueries) {
      const BlockPair first(p, batch, head, query, 0);
      LoadQueries(p, first, x, s);
      std::fill_n(s.dq, first.queries * width, C(0));
      for (int64_t key = 0; key < p.VisibleTo(query + first.queries - 1); key += kKeys) {
        AddGradients(p, BlockPair(p, batch, head, query, key), Rows<C>{v.at + key * v.stride, v.stride}, x.in.mask, s);
      }
      StoreRows(s.dq, first.queries, p.d, p.scale, x.dq + p.QAt(batch, query, head), p.q_row);
    }
  }
  StoreRows(s.dk, p.s, p.d, p.scale, PartAt(x.dk, keys_at), p.k_row);
  StoreRows(s.dv, p.s, p.d, 1, PartAt(x.dv, keys_at), p.k_row);
}

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeBackward(const KernelSpec& spec, bool packed) {
  using C = Compute<T>;
  const int y_at = packed ? 1 : 3;
  const Problem p = MakeProblem(spec, packed, static_cast<size_t>(y_at) + 3);
  const int64_t tasks = p.n * p.g, threads = std::clamp<int64_t>(tasks, 1, ParallelThreads());
  const int64_t per_thread = GradScratch<C>::Elements(p);
  const double cost = 10 * p.Products() / static_cast<double>(Vector<C>::kLanes * threads);
  return Kernel{[=](const KernelContext& context) {
                  T* const dq = context.output<T>(0);
                  T* const dk = packed ? PartAt(dq, p.h * p.d) : context.output<T>(1);
                  T* const dv = packed ? PartAt(dk, p.g * p.d) : context.output<T>(2);
                  const GradOperands<T> x = {Operands<T>(p, context, packed, y_at + 3),
                                             context.input<T>(y_at),
                                             context.input<T>(y_at + 2),
                                             context.input<C>(y_at + 1),
                                             dq,
                                             dk,
                                             dv};
                  ParallelFor(threads, cost, [&](int64_t first, int64_t last) {
                    for (int64_t thread = first; thread < last; ++thread) {
                      GradScratch<C> scratch(p, static_cast<C*>(context.workspace) + thread * per_thread);
                      for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; ++task) {
                        RunGradTask(p, task / p.g, task % p.g, x, scratch);
                      }
                    }
                  });
                  return absl::OkStatus();
                },
                static_cast<size_t>(threads * per_thread) * sizeof(C)};
}

template absl::StatusOr<Kernel> MakeBackward<float>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeBackward<double>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeBackward<Half>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeBackward<BFloat16>(const KernelSpec&, bool);

}  // namespace belfry::ops::attention
