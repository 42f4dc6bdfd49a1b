// The gradient of attention on GPUs, in three launches: delta = sum over a query's elements of dy y; then dq by tiles
// of queries; then dk and dv by tiles of keys. Both compute the probabilities p again, from the log-sum-exp of the
// scores:
//   dv = p^T dy    ds = p (dy v^T - delta)    dq = ds k scale    dk = ds^T q scale
#include <algorithm>

#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/attention/attention_gpu_impl.h"
#include "ops/attention/attention_ops.h"

namespace belfry::ops {
namespace {

using attention::Operands;
using attention::Problem;
using attention::Tiling;

template <class T>
struct AttentionSlopes {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  Operands<S> in;
  const S *y, *dy;
  const C* log_sum_exp;
  C *delta, *top, *share;  // [n, h, t]
  S *dq, *dk, *dv;

  struct Pair {
    C probability, slope;
  };
  // The probability of key `k` for query `q`, which is multiplied by scale, and the slope of their score. A query
  // without a weight has an infinite top. Where `top` is the largest score, rounding may put one above it.
  BELFRY_GPU Pair Of(int64_t batch, int64_t head, int64_t query, int64_t key, const C* q, const C* k, const C* dy_row,
                     const C* v) const {
    if (key >= p.VisibleTo(query)) return {0, 0};
    const int64_t at = p.RowAt(batch, query, head);
    const C above = attention::Score<T>(p, in.mask, batch, head, query, key, q, k) - top[at];
    const C probability = std::exp(above > 0 ? C(0) : above) * share[at];
    return {probability, probability * (attention::Dot(dy_row, v, p.d) - delta[at])};
  }
};

// Also the scores' top, and share, 1 over the sum of exp(score - top): the log-sum-exp and 1, unless LosesSum.
template <class T>
struct FindDelta {
  using C = gpu::Compute<T>;
  AttentionSlopes<T> x;

  BELFRY_GPU void operator()(int64_t row) const {  // of y
    const Problem& p = x.p;
    constexpr C kInfinity = std::numeric_limits<C>::infinity();
    const int64_t batch = row / p.h / p.t, query = row / p.h % p.t, head = row % p.h, at = p.RowAt(batch, query, head);
    C sum = 0;
    for (int64_t i = row * p.d; i < (row + 1) * p.d; ++i) sum += gpu::Widen(x.y[i]) * gpu::Widen(x.dy[i]);
    x.delta[at] = sum;
    const C log_sum_exp = x.log_sum_exp[at];
    x.top[at] = log_sum_exp == -kInfinity ? kInfinity : log_sum_exp;
    x.share[at] = 1;
    if (log_sum_exp - log_sum_exp == 0 && attention::LosesSum(log_sum_exp)) FindSum(batch, query, head, at);
  }

  BELFRY_GPU void FindSum(int64_t batch, int64_t query, int64_t head, int64_t at) const {
    const Problem& p = x.p;
    const gpu::Stored<T>*q = x.in.q + p.QAt(batch, query, head), *k = x.in.k + p.KAt(batch, 0, head * p.g / p.h);
    const auto score = [&](int64_t key) {
      C dot = 0;
      for (int64_t c = 0; c < p.d; ++c) {
        dot += gpu::Widen(q[c]) * static_cast<C>(p.scale) * gpu::Widen(k[key * p.k_row + c]);
      }
      return x.in.mask == nullptr ? dot : dot + gpu::Widen(x.in.mask[p.MaskAt(batch, head, query, key)]);
    };
    C top = -std::numeric_limits<C>::infinity(), sum = 0;
    for (int64_t key = 0; key < p.VisibleTo(query); ++key) top = score(key) > top ? score(key) : top;
    for (int64_t key = 0; key < p.VisibleTo(query); ++key) {
      const C above = score(key) - top;
      sum += std::exp(above > 0 ? C(0) : above);
    }
    x.top[at] = top;
    x.share[at] = 1 / sum;
  }
};

template <class T>
struct QueryGradients {
  using C = gpu::Compute<T>;
  AttentionSlopes<T> x;
  int64_t rows;

  BELFRY_GPU void operator()(int64_t block, const gpu::Team& team, void* memory) const {
    const Problem& p = x.p;
    const int64_t tiles = (p.t + rows - 1) / rows, query = block % tiles * rows, head = block / tiles % p.h;
    const int64_t batch = block / tiles / p.h, group = head * p.g / p.h;
    const int64_t queries = p.t - query < rows ? p.t - query : rows, row = p.d + 1, slope_row = rows + 1;
    attention::Shared<C> shared{static_cast<C*>(memory)};
    C *q = shared.Take(rows * row), *dy = shared.Take(rows * row), *dq = shared.Take(rows * row);
    C *k = shared.Take(rows * row), *v = shared.Take(rows * row), *slopes = shared.Take(rows * slope_row);
    const C scale = static_cast<C>(p.scale);
    attention::LoadTile<T>(team, x.in.q + p.QAt(batch, query, head), p.q_row, queries, p.d, scale, q);
    attention::LoadTile<T>(team, x.dy + p.YAt(batch, query, head), p.y_row, queries, p.d, C(1), dy);
    attention::ClearTile(team, queries, p.d, dq);
    for (int64_t key = 0; key < p.VisibleTo(query + queries - 1); key += rows) {
      const int64_t keys = p.s - key < rows ? p.s - key : rows, from = p.KAt(batch, key, group);
      attention::LoadTile<T>(team, x.in.k + from, p.k_row, keys, p.d, C(1), k);
      attention::LoadTile<T>(team, x.in.v + from, p.k_row, keys, p.d, C(1), v);
      team.Wait();
      for (int64_t i = team.rank; i < queries * keys; i += team.size) {
        const int64_t own = i / keys, other = i % keys;
        slopes[own * slope_row + other] =
            x.Of(batch, head, query + own, key + other, q + own * row, k + other * row, dy + own * row, v + other * row)
                .slope;
      }
      team.Wait();
      for (int64_t i = team.rank; i < queries * p.d; i += team.size) {
        const int64_t own = i / p.d, c = i % p.d;
        C sum = dq[own * row + c];
        for (int64_t j = 0; j < keys; ++j) sum += slopes[own * slope_row + j] * k[j * row + c];
        dq[own * row + c] = sum;
      }
      team.Wait();
    }
    team.Wait();
    attention::StoreTile<T>(team, dq, queries, p.d, scale, x.dq + p.QAt(batch, query, head), p.q_row);
  }
};

// The sums over all queries, and all heads that share a head of keys, in ascending order.
template <class T>
struct KeyGradients {
  using C = gpu::Compute<T>;
  AttentionSlopes<T> x;
  int64_t rows;

  BELFRY_GPU void operator()(int64_t block, const gpu::Team& team, void* memory) const {
    const Problem& p = x.p;
    const int64_t tiles = (p.s + rows - 1) / rows, key = block % tiles * rows, group = block / tiles % p.g;
    const int64_t batch = block / tiles / p.g, heads = p.h / p.g, from = p.KAt(batch, key, group);
    const int64_t keys = p.s - key < rows ? p.s - key : rows, row = p.d + 1, pair_row = rows + 1;
    attention::Shared<C> shared{static_cast<C*>(memory)};
    C *k = shared.Take(rows * row), *v = shared.Take(rows * row), *dk = shared.Take(rows * row);
    C *dv = shared.Take(rows * row), *q = shared.Take(rows * row), *dy = shared.Take(rows * row);
    C *probabilities = shared.Take(rows * pair_row), *slopes = shared.Take(rows * pair_row);
    attention::LoadTile<T>(team, x.in.k + from, p.k_row, keys, p.d, C(1), k);
    attention::LoadTile<T>(team, x.in.v + from, p.k_row, keys, p.d, C(1), v);
    attention::ClearTile(team, keys, p.d, dk);
    attention::ClearTile(team, keys, p.d, dv);
    const int64_t query_tiles = (p.t + rows - 1) / rows;
    for (int64_t tile = 0; tile < heads * query_tiles; ++tile) {
      const int64_t head = group * heads + tile / query_tiles, query = tile % query_tiles * rows;
      const int64_t queries = p.t - query < rows ? p.t - query : rows;
      if (key >= p.VisibleTo(query + queries - 1)) continue;
      attention::LoadTile<T>(team, x.in.q + p.QAt(batch, query, head), p.q_row, queries, p.d, static_cast<C>(p.scale),
                             q);
      attention::LoadTile<T>(team, x.dy + p.YAt(batch, query, head), p.y_row, queries, p.d, C(1), dy);
      team.Wait();
      for (int64_t at = team.rank; at < queries * keys; at += team.size) {
        const int64_t own = at / keys, other = at % keys;
        const auto pair = x.Of(batch, head, query + own, key + other, q + own * row, k + other * row, dy + own * row,
                               v + other * row);
        probabilities[own * pair_row + other] = pair.probability;
        slopes[own * pair_row + other] = pair.slope;
      }
      team.Wait();
      for (int64_t at = team.rank; at < keys * p.d; at += team.size) {
        const int64_t own = at / p.d, c = at % p.d;
        C dk_sum = dk[own * row + c], dv_sum = dv[own * row + c];
        for (int64_t j = 0; j < queries; ++j) {
          dk_sum += slopes[j * pair_row + own] * q[j * row + c];
          dv_sum += probabilities[j * pair_row + own] * dy[j * row + c];
        }
        dk[own * row + c] = dk_sum;
        dv[own * row + c] = dv_sum;
      }
      team.Wait();
    }
    team.Wait();
    attention::StoreTile<T>(team, dk, keys, p.d, C(1), x.dk + from, p.k_row);
    attention::StoreTile<T>(team, dv, keys, p.d, C(1), x.dv + from, p.k_row);
  }
};

template <class T, bool packed>
absl::StatusOr<Kernel> MakeGpuAttentionGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  constexpr int kY = packed ? 1 : 3, kMask = kY + 3;
  const Problem p = attention::MakeProblem(spec, packed, kMask);
  ASSIGN_OR_RETURN(const Tiling of_queries, Tiling::For<C>(p.d, 5, 1, 0));
  ASSIGN_OR_RETURN(const Tiling of_keys, Tiling::For<C>(p.d, 6, 2, 0));
  return Kernel{[=](const KernelContext& at) {
                  S* const dq = at.output<S>(0);
                  const AttentionSlopes<T> x{p,
                                             Operands<S>(p, at, packed, kMask),
                                             at.input<S>(kY),
                                             at.input<S>(kY + 2),
                                             at.input<C>(kY + 1),
                                             static_cast<C*>(at.workspace),
                                             static_cast<C*>(at.workspace) + p.n * p.h * p.t,
                                             static_cast<C*>(at.workspace) + 2 * p.n * p.h * p.t,
                                             dq,
                                             packed ? attention::PartAt(dq, p.h * p.d) : at.output<S>(1),
                                             packed ? attention::PartAt(dq, (p.h + p.g) * p.d) : at.output<S>(2)};
                  RETURN_IF_ERROR(gpu::ForEach(*at.stream, p.n * p.t * p.h, FindDelta<T>{x}));
                  RETURN_IF_ERROR(gpu::ForEachBlock(*at.stream, p.n * p.h * of_queries.Tiles(p.t), of_queries.bytes,
                                                    QueryGradients<T>{x, of_queries.rows}));
                  return gpu::ForEachBlock(*at.stream, p.n * p.g * of_keys.Tiles(p.s), of_keys.bytes,
                                           KeyGradients<T>{x, of_keys.rows});
                },
                static_cast<size_t>(3 * p.n * p.h * p.t) * sizeof(C)};
}

}  // namespace

void AddAttentionGradGpuKernels(KernelTable& table) {
  table.AddKernels("AttentionGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeGpuAttentionGrad<typename decltype(tag)::type, false>;
                   }));
  table.AddKernels("SelfAttentionGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeGpuAttentionGrad<typename decltype(tag)::type, true>;
                   }));
}

}  // namespace belfry::ops
