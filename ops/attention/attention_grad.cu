// The gradient of attention on GPUs, in two launches: dq by tiles of queries, with what the second one needs of each
// query; then dk and dv by tiles of keys. Both compute the probabilities p again, from the log-sum-exp of the scores:
//   delta = sum over a query's elements of dy y
//   dv = p^T dy    ds = p (dy v^T - delta)    dq = ds k scale    dk = ds^T q scale
#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/attention/attention_gpu_impl.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/library_gpu_impl.h"
#include "ops/attention/query_gradients_gpu_impl.h"

namespace belfry::ops {
namespace {

using attention::GradOperands;
using attention::Operands;
using attention::Problem;
using attention::QueryGradients;

// The sums over all queries, and all heads that share a head of keys, in ascending order.
template <class Tiling>
struct KeyGradients {
  using S = typename Tiling::S;
  using C = typename Tiling::C;
  using Matrix = attention::Matrix<S>;
  using Scores = typename Tiling::Scores;
  static constexpr int kRows = gpu::Warp::kRows, kColumns = gpu::Warp::kColumns<Tiling::others>;
  GradOperands<S, C> x;

  // Tiles of queries that see the block's keys, of one head after another.
  struct Queries {
    int first, per_head, all;

    BELFRY_GPU Queries(const attention::Sight& sight, int key, int heads) {
      const int sees = sight.causal ? key - sight.ahead : 0, from = sees < 0 ? 0 : sees;
      first = from / Tiling::others * Tiling::others;
      per_head = first < sight.t ? (sight.t - first + Tiling::others - 1) / Tiling::others : 0;
      all = per_head * heads;
    }
    BELFRY_GPU int Head(int tile) const { return tile / per_head; }
    BELFRY_GPU int Query(int tile) const { return first + tile % per_head * Tiling::others; }
  };

  // A block's keys, as one of its warps sees them.
  struct Keys {
    attention::Place at;
    attention::Sight sight;
    attention::BlockMemory<Tiling> memory;
    int d, first, count;           // of the warp
    int64_t key_head, query_head;  // the first key's element, and the first of the heads that share it
    attention::Columns all, part;
    Queries queries;
    Matrix k, v;

    BELFRY_GPU Keys(const GradOperands<S, C>& x, int64_t block, const gpu::Warp& warp, void* shared)
        : at(attention::Place::Of<Tiling>(block, x.p.g, x.p.n, x.p.s, x.p.d, /*last_first=*/false)),
          sight(x.p),
          memory(shared, warp),
          d(static_cast<int>(x.p.d)),
          first(at.own + warp.index() * gpu::kTileRows),
          count(sight.s - first),
          key_head(x.p.KAt(at.batch, first, at.head)),
          query_head(at.head * x.p.h / x.p.g),
          all{0, d, x.packs},
          part{at.column, d, x.packs},
          queries(sight, at.own, static_cast<int>(x.p.h / x.p.g)),
          k{x.in.k + key_head, x.p.k_row, count},
          v{x.in.v + key_head, x.p.k_row, count} {}
  };
  BELFRY_GPU Matrix QueriesOf(const Keys& keys, int tile) const {
    const int64_t at = x.p.QAt(keys.at.batch, 0, keys.query_head + keys.queries.Head(tile));
    return Matrix{x.in.q + at, x.p.q_row, keys.sight.t}.From(keys.queries.Query(tile));
  }
  BELFRY_GPU Matrix GradientsOf(const Keys& keys, int tile) const {
    const int64_t at = x.p.YAt(keys.at.batch, 0, keys.query_head + keys.queries.Head(tile));
    return Matrix{x.dy + at, x.p.y_row, keys.sight.t}.From(keys.queries.Query(tile));
  }

  BELFRY_GPU void operator()(int64_t block, const gpu::Warp& warp, void* shared) const {
    const Keys keys(x, block, warp, shared);
    const auto& memory = keys.memory;
    typename Tiling::Own own_k, own_v;
    typename Tiling::Sums dk{}, dv{};
    const auto load = [&](const Matrix& from, S* tile) { attention::LoadTile<Tiling>(warp, from, keys.all, tile); };
    const auto replace = [&](const Matrix& from, S* tile) {
      attention::ReplaceTile<Tiling>(warp, from, keys.part, tile);
    };
    if constexpr (Tiling::resident) {
      own_k.Load(warp, keys.k.at, keys.k.stride, keys.count, keys.d, memory.own);
      own_v.Load(warp, keys.v.at, keys.v.stride, keys.count, keys.d, memory.own);
      if (keys.queries.all > 0) load(QueriesOf(keys, 0), memory.first);
      if (keys.queries.all > 0) load(GradientsOf(keys, 0), memory.second);
    }
    for (int tile = 0; tile < keys.queries.all; ++tile) {
      const bool more = tile + 1 < keys.queries.all;
      if constexpr (Tiling::resident) {
        gpu::WaitForCopies();
        warp.WaitForBlock();
      }
      const Matrix q = QueriesOf(keys, tile), dy = GradientsOf(keys, tile);
      Scores scores = attention::Products<Tiling>(warp, own_k, keys.k, q, keys.d, x.packs, memory, memory.first);
      Scores slopes = attention::Products<Tiling>(warp, own_v, keys.v, dy, keys.d, x.packs, memory, memory.second);
      FindSlopes(warp, keys, tile, scores, slopes);
      if constexpr (!Tiling::resident) replace(dy, memory.second);
      gpu::AddProduct<typename Tiling::T, Tiling::tensor_cores>(warp, scores, memory.second, dv, memory.product);
      if constexpr (Tiling::resident) {
        warp.WaitForBlock();
        if (more) load(GradientsOf(keys, tile + 1), memory.second);
      } else {
        replace(q, memory.first);
      }
      gpu::AddProduct<typename Tiling::T, Tiling::tensor_cores>(warp, slopes, memory.first, dk, memory.product);
      if constexpr (Tiling::resident) {
        warp.WaitForBlock();
        if (more) load(QueriesOf(keys, tile + 1), memory.first);
      }
    }
    const auto scale = [&](int) { return static_cast<C>(x.p.scale); };
    const auto one = [](int) { return C(1); };
    attention::StoreSums<Tiling>(warp, dk, keys.count, keys.part, scale, x.dk + keys.key_head, x.p.k_row);
    attention::StoreSums<Tiling>(warp, dv, keys.count, keys.part, one, x.dv + keys.key_head, x.p.k_row);
  }

  // Products of k and q become probabilities, and those of v and dy slopes.
  BELFRY_GPU void FindSlopes(const gpu::Warp& warp, const Keys& keys, int tile, Scores& scores, Scores& slopes) const {
    const int64_t head = keys.query_head + keys.queries.Head(tile);
    const int first_query = keys.queries.Query(tile), count = keys.sight.t - first_query;
    const int64_t from = x.p.RowAt(keys.at.batch, first_query, head);
    attention::FindScores<Tiling, true>(warp, x.p, keys.sight, x.MaskOf(keys.at.batch, head), first_query, keys.first,
                                        scores);
    BELFRY_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const int query = warp.Column(j);
      const bool there = query < count;
      const C top = there ? x.top[from + query] : std::numeric_limits<C>::infinity();
      const C share = there ? x.share[from + query] : C(0), delta = there ? x.delta[from + query] : C(0);
      BELFRY_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const C score = scores.at[i][j], above = score - top;
        scores.at[i][j] = gpu::Exp2(above > 0 ? C(0) : above) * share;
        const C slope = scores.at[i][j] * (slopes.at[i][j] - delta);
        slopes.at[i][j] = score == -std::numeric_limits<C>::infinity() ? C(0) : slope;
      }
    }
  }
};

template <class T, bool packed>
absl::StatusOr<Kernel> MakeGpuAttentionGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  constexpr int kY = packed ? 1 : 3, kMask = kY + 3;
  const Problem p = attention::MakeProblem(spec, packed, kMask);
  RETURN_IF_ERROR(attention::CheckExtents(p));
  Kernel own = attention::WithTiling<T, true>(p.d, spec.device->math().tf32, [&p](auto tiling) {
    using Tiling = decltype(tiling);
    return Kernel{[p](const KernelContext& at) {
                    C* const facts = static_cast<C*>(at.workspace);
                    const int64_t rows = p.n * p.h * p.t;
                    S* const dq = at.output<S>(0);
                    const Operands<S> in(p, at, packed, kMask);
                    const GradOperands<S, C> x{p,
                                               in,
                                               at.input<S>(kY),
                                               at.input<S>(kY + 2),
                                               at.input<C>(kY + 1),
                                               facts,
                                               facts + rows,
                                               facts + 2 * rows,
                                               dq,
                                               packed ? attention::PartAt(dq, p.h * p.d) : at.output<S>(1),
                                               packed ? attention::PartAt(dq, (p.h + p.g) * p.d) : at.output<S>(2),
                                               attention::ReadsPacks<S>(p, in.q, in.k, in.v, at.input<S>(kY + 2))};
                    RETURN_IF_ERROR(gpu::ForEachWarpBlock(*at.stream, attention::Blocks<Tiling>(p.h, p.n, p.t, p.d),
                                                          Tiling::kBytes, QueryGradients<Tiling>{x}));
                    return gpu::ForEachWarpBlock(*at.stream, attention::Blocks<Tiling>(p.g, p.n, p.s, p.d),
                                                 Tiling::kBytes, KeyGradients<Tiling>{x});
                  },
                  static_cast<size_t>(3 * p.n * p.h * p.t) * sizeof(C)};
  });
  return attention::OwnOrLibrary<T, packed, true>(spec, p, std::move(own));
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
