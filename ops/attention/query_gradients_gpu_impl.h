// The gradient of attention's queries on GPUs, and what each query has for that of the keys. For .cu files.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/attention/attention_gpu_impl.h"

namespace belfry::ops::attention {

// A probability is 2^(score - top) share, of scores in units of log(2). A query without a weight has an infinite top.
template <class S, class C>
struct GradOperands {
  Problem p;
  Operands<S> in;
  const S *y, *dy;
  const C* log_sum_exp;
  C *delta, *top, *share;  // [n, h, t]
  S *dq, *dk, *dv;
  bool packs;

  BELFRY_GPU const S* MaskOf(int64_t batch, int64_t head) const {
    return in.mask == nullptr ? nullptr : in.mask + p.MaskAt(batch, head, 0, 0);
  }
};

template <class C>
BELFRY_GPU bool IsLost(C log_sum_exp) {
  return log_sum_exp - log_sum_exp == 0 && LosesSum(log_sum_exp);
}

template <class Tiling>
struct QueryGradients {
  using S = typename Tiling::S;
  using C = typename Tiling::C;
  static constexpr int kRows = gpu::Warp::kRows;
  using Matrix = attention::Matrix<S>;
  using Memory = BlockMemory<Tiling>;
  GradOperands<S, C> x;

  // Values of the warp's rows.
  struct Facts {
    C delta[kRows], top[kRows], share[kRows];
    bool lost[kRows];
  };

  BELFRY_GPU void operator()(int64_t block, const gpu::Warp& warp, void* shared) const {
    const Problem& p = x.p;
    const auto at = Place::Of<Tiling>(block, p.h, p.n, p.t, p.d, /*last_first=*/true);
    const Sight sight(p);
    const Memory memory(shared, warp);
    const int d = static_cast<int>(p.d), query = at.own + warp.index() * gpu::kTileRows, count = sight.t - query;
    const int64_t key_head = p.KAt(at.batch, 0, at.head * p.g / p.h);
    const Matrix q{x.in.q + p.QAt(at.batch, query, at.head), p.q_row, count};
    const Matrix dy{x.dy + p.YAt(at.batch, query, at.head), p.y_row, count};
    const Matrix k{x.in.k + key_head, p.k_row, sight.s}, v{x.in.v + key_head, p.k_row, sight.s};
    const Columns all{0, d, x.packs}, part{at.column, d, x.packs};
    const int last = at.own + kOwnRows < sight.t ? at.own + kOwnRows : sight.t;
    const int end = sight.End(last - 1);
    const S* const mask = x.MaskOf(at.batch, at.head);

    typename Tiling::Own own_q, own_dy;
    typename Tiling::Sums dq{};
    if constexpr (Tiling::resident) {
      own_q.Load(warp, q.at, q.stride, count, d, memory.own);
      own_dy.Load(warp, dy.at, dy.stride, count, d, memory.own);
    }
    Facts facts = FactsOf(warp, at, query, count);
    if (LosesAny(at, last)) FindSums(warp, own_q, q, k, all, memory, sight, mask, query, end, facts);
    if (at.column == 0) StoreFacts(warp, at, query, count, facts);
    if constexpr (Tiling::resident) {
      warp.WaitForBlock();
      if (end > 0) LoadTile<Tiling>(warp, k, all, memory.first);
      if (end > 0) LoadTile<Tiling>(warp, v, all, memory.second);
    }
    for (int key = 0; key < end; key += Tiling::others) {
      const bool more = key + Tiling::others < end;
      if constexpr (Tiling::resident) {
        gpu::WaitForCopies();
        warp.WaitForBlock();
      }
      auto scores = Products<Tiling>(warp, own_q, q, k.From(key), d, x.packs, memory, memory.first);
      FindScores<Tiling, false>(warp, p, sight, mask, query, key, scores);
      auto slopes = Products<Tiling>(warp, own_dy, dy, v.From(key), d, x.packs, memory, memory.second);
      FindSlopes(facts, scores, slopes);
      if constexpr (Tiling::resident) {
        warp.WaitForBlock();
        if (more) LoadTile<Tiling>(warp, v.From(key + Tiling::others), all, memory.second);
      } else {
        ReplaceTile<Tiling>(warp, k.From(key), part, memory.first);
      }
      gpu::AddProduct<typename Tiling::T, Tiling::tensor_cores>(warp, slopes, memory.first, dq, memory.product);
      if constexpr (Tiling::resident) {
        warp.WaitForBlock();
        if (more) LoadTile<Tiling>(warp, k.From(key + Tiling::others), all, memory.first);
      }
    }
    const auto scale = [&](int) { return static_cast<C>(p.scale); };
    StoreSums<Tiling>(warp, dq, count, part, scale, x.dq + p.QAt(at.batch, query, at.head), p.q_row);
  }

  BELFRY_GPU static void FindSlopes(const Facts& facts, const typename Tiling::Scores& scores,
                                    typename Tiling::Scores& slopes) {
    BELFRY_UNROLL
    for (int i = 0; i < kRows; ++i) {
      BELFRY_UNROLL
      for (int j = 0; j < gpu::Warp::kColumns<Tiling::others>; ++j) {
        const C score = scores.at[i][j], above = score - facts.top[i];
        const C slope = gpu::Exp2(above > 0 ? C(0) : above) * facts.share[i] * (slopes.at[i][j] - facts.delta[i]);
        slopes.at[i][j] = score == -std::numeric_limits<C>::infinity() ? C(0) : slope;
      }
    }
  }

  BELFRY_GPU Facts FactsOf(const gpu::Warp& warp, const Place& at, int query, int count) const {
    constexpr C kInfinity = std::numeric_limits<C>::infinity();
    const Problem& p = x.p;
    Facts facts;
    for (int i = 0; i < kRows; ++i) {
      const int row = warp.Row(i);
      C sum = 0, log_sum_exp = -kInfinity;
      if (row < count) {
        const int64_t from = p.YAt(at.batch, query + row, at.head);
        for (int c = warp.RowLane(); c < p.d; c += gpu::Warp::kRowLanes) {
          sum += gpu::Widen(x.y[from + c]) * gpu::Widen(x.dy[from + c]);
        }
        log_sum_exp = x.log_sum_exp[p.RowAt(at.batch, query + row, at.head)];
      }
      facts.delta[i] = warp.RowSum(sum);
      facts.top[i] = log_sum_exp == -kInfinity ? kInfinity : log_sum_exp * static_cast<C>(kLog2E);
      facts.share[i] = 1;
      facts.lost[i] = IsLost(log_sum_exp);
    }
    return facts;
  }
  BELFRY_GPU void StoreFacts(const gpu::Warp& warp, const Place& at, int query, int count, const Facts& facts) const {
    for (int i = 0; i < kRows; ++i) {
      if (!warp.Leads() || warp.Row(i) >= count) continue;
      const int64_t to = x.p.RowAt(at.batch, query + warp.Row(i), at.head);
      x.delta[to] = facts.delta[i], x.top[to] = facts.top[i], x.share[to] = facts.share[i];
    }
  }

  // The same for all threads of a block.
  BELFRY_GPU bool LosesAny(const Place& at, int last) const {
    const C* const log_sum_exp = x.log_sum_exp + x.p.RowAt(at.batch, 0, at.head);
    bool any = false;
    for (int query = at.own; query < last; ++query) any = any || IsLost(log_sum_exp[query]);
    return any;
  }
  // The largest score and the inverse of the sum for those queries whose log-sum-exp lost it.
  BELFRY_GPU void FindSums(const gpu::Warp& warp, typename Tiling::Own& own, const Matrix& q, const Matrix& k,
                           const Columns& all, const Memory& memory, const Sight& sight, const S* mask, int query,
                           int end, Facts& facts) const {
    Running<C> running;
    for (int key = 0; key < end; key += Tiling::others) {
      if constexpr (Tiling::resident) ReplaceTile<Tiling>(warp, k.From(key), all, memory.first);
      auto scores = Products<Tiling>(warp, own, q, k.From(key), all.end, all.packs, memory, memory.first);
      FindScores<Tiling, false>(warp, x.p, sight, mask, query, key, scores);
      running.Exponentiate(warp, scores);
    }
    for (int i = 0; i < kRows; ++i) {
      const C sum = warp.RowSum(running.sum[i]);
      if (facts.lost[i]) facts.top[i] = running.top[i], facts.share[i] = 1 / sum;
    }
  }
};

}  // namespace belfry::ops::attention
