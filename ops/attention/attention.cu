// Attention on GPUs, blockwise (Dao, "FlashAttention-2", 2023): a thread block works on one tile of a head's queries,
// and on one tile of keys after another.
#include <cmath>

#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/attention/attention_gpu_impl.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/library_gpu_impl.h"

namespace belfry::ops {
namespace {

using attention::Operands;
using attention::Problem;

template <class Tiling>
struct AttendTile {
  using S = typename Tiling::S;
  using C = typename Tiling::C;
  Problem p;
  Operands<S> in;
  S* y;
  C* log_sum_exp;
  bool packs;

  BELFRY_GPU void operator()(int64_t block, const gpu::Warp& warp, void* shared) const {
    const auto at = attention::Place::Of<Tiling>(block, p.h, p.n, p.t, p.d, /*last_first=*/true);
    const attention::Sight sight(p);
    const attention::BlockMemory<Tiling> memory(shared, warp);
    const int d = static_cast<int>(p.d), query = at.own + warp.index() * gpu::kTileRows;
    const int64_t key_head = p.KAt(at.batch, 0, at.head * p.g / p.h);
    const attention::Matrix<S> q{in.q + p.QAt(at.batch, query, at.head), p.q_row, sight.t - query};
    const S* const mask = in.mask == nullptr ? nullptr : in.mask + p.MaskAt(at.batch, at.head, 0, 0);
    // Values that the mask hides from all queries count as 0, since a probability of 0 would make NaN of infinities.
    const attention::Matrix<S> k{in.k + key_head, p.k_row, sight.s};
    const attention::Matrix<S> v{in.v + key_head, p.k_row, sight.s, p.mask[2] == 0 ? mask : nullptr, p.mask[3]};
    const attention::Columns all{0, d, packs}, part{at.column, d, packs};
    const int last = at.own + attention::kOwnRows < sight.t ? at.own + attention::kOwnRows : sight.t;
    const int end = sight.End(last - 1);

    typename Tiling::Own own;
    typename Tiling::Sums sums{};
    attention::Running<C> running;
    if constexpr (Tiling::resident) {
      own.Load(warp, q.at, q.stride, q.count, d, memory.own);
      if (end > 0) attention::LoadTile<Tiling>(warp, k, all, memory.first);
    }
    for (int key = 0; key < end; key += Tiling::others) {
      if constexpr (Tiling::resident) {
        gpu::WaitForCopies();
        warp.WaitForBlock();
        attention::LoadTile<Tiling>(warp, v.From(key), all, memory.second);
      }
      auto scores = attention::Products<Tiling>(warp, own, q, k.From(key), d, packs, memory, memory.first);
      if constexpr (Tiling::resident) {
        gpu::WaitForCopies();
        warp.WaitForBlock();
        if (key + Tiling::others < end)
          attention::LoadTile<Tiling>(warp, k.From(key + Tiling::others), all, memory.first);
      } else {
        attention::ReplaceTile<Tiling>(warp, v.From(key), part, memory.second);
      }
      attention::FindScores<Tiling, false>(warp, p, sight, mask, query, key, scores);
      running.Exponentiate(warp, scores);
      BELFRY_UNROLL
      for (int i = 0; i < gpu::Warp::kRows; ++i) {
        for (C& x : sums.at[i]) x *= running.fade[i];
      }
      gpu::AddProduct<typename Tiling::T, Tiling::tensor_cores>(warp, scores, memory.second, sums, memory.product);
    }
    Store(warp, at, query, q.count, part, sums, running);
  }

  BELFRY_GPU void Store(const gpu::Warp& warp, const attention::Place& at, int query, int count,
                        const attention::Columns& part, const typename Tiling::Sums& sums,
                        attention::Running<C>& running) const {
    for (int i = 0; i < gpu::Warp::kRows; ++i) {
      C& sum = running.sum[i];
      sum = warp.RowSum(sum);
      if (part.begin > 0 || !warp.Leads() || warp.Row(i) >= count) continue;
      log_sum_exp[p.RowAt(at.batch, query + warp.Row(i), at.head)] =
          sum == 0 ? -std::numeric_limits<C>::infinity()
                   : (running.top[i] + std::log2(sum)) / static_cast<C>(attention::kLog2E);
    }
    const auto share = [&](int i) { return running.sum[i] == 0 ? C(0) : 1 / running.sum[i]; };
    attention::StoreSums<Tiling>(warp, sums, count, part, share, y + p.YAt(at.batch, query, at.head), p.y_row);
  }
};

template <bool packed>
constexpr int kMask = packed ? 1 : 3;  // the input, if there is one

template <class T, bool packed>
absl::StatusOr<Kernel> MakeGpuAttention(const KernelSpec& spec) {
  const Problem p = attention::MakeProblem(spec, packed, kMask<packed>);
  RETURN_IF_ERROR(attention::CheckExtents(p));
  Kernel own = attention::WithTiling<T, false>(p.d, spec.device->math().tf32, [&p](auto tiling) {
    using Tiling = decltype(tiling);
    using S = typename Tiling::S;
    return Kernel{[p](const KernelContext& at) {
      const Operands<S> in(p, at, packed, kMask<packed>);
      const AttendTile<Tiling> body{p, in, at.output<S>(0), at.output<typename Tiling::C>(1),
                                    attention::ReadsPacks<S>(p, in.q, in.k, in.v)};
      return gpu::ForEachWarpBlock(*at.stream, attention::Blocks<Tiling>(p.h, p.n, p.t, p.d), Tiling::kBytes, body);
    }};
  });
  return attention::OwnOrLibrary<T, packed, false>(spec, p, std::move(own));
}

}  // namespace

void AddAttentionForwardGpuKernels(KernelTable& table) {
  table.AddKernels("Attention", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeGpuAttention<typename decltype(tag)::type, false>;
                   }));
  table.AddKernels("SelfAttention", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     return &MakeGpuAttention<typename decltype(tag)::type, true>;
                   }));
}

}  // namespace belfry::ops
