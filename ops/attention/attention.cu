// Attention on GPUs, blockwise (Dao et al., "FlashAttention", 2022): a thread block works on one tile of a head's
// queries, and on one tile of keys after another.
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
struct AttendTile {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  int64_t rows;
  Operands<S> in;
  S* y;
  C* log_sum_exp;

  // Replaces a query's scores by probabilities relative to the largest score so far.
  BELFRY_GPU void Exponentiate(int64_t keys, C* scores, C& top, C& sum, C& fade) const {
    constexpr C kMinusInfinity = -std::numeric_limits<C>::infinity();
    C largest = top;
    for (int64_t j = 0; j < keys; ++j) largest = scores[j] > largest ? scores[j] : largest;
    const C shift = largest == kMinusInfinity ? C(0) : largest;
    fade = std::exp(top - shift);
    top = largest;
    sum *= fade;
    for (int64_t j = 0; j < keys; ++j) {
      scores[j] = std::exp(scores[j] - shift);
      sum += scores[j];
    }
  }

  BELFRY_GPU void operator()(int64_t block, const gpu::Team& team, void* memory) const {
    const int64_t tiles = (p.t + rows - 1) / rows, query = block % tiles * rows, head = block / tiles % p.h;
    const int64_t batch = block / tiles / p.h, group = head * p.g / p.h;
    const int64_t queries = p.t - query < rows ? p.t - query : rows, row = p.d + 1, score_row = rows + 1;
    attention::Shared<C> shared{static_cast<C*>(memory)};
    C *q = shared.Take(rows * row), *k = shared.Take(rows * row), *v = shared.Take(rows * row);
    C *sums = shared.Take(rows * row), *scores = shared.Take(rows * score_row);
    C *top = shared.Take(rows), *sum = shared.Take(rows), *fade = shared.Take(rows);

    attention::LoadTile<T>(team, in.q + p.QAt(batch, query, head), p.q_row, queries, p.d, static_cast<C>(p.scale), q);
    attention::ClearTile(team, queries, p.d, sums);
    for (int64_t i = team.rank; i < queries; i += team.size) {
      top[i] = -std::numeric_limits<C>::infinity();
      sum[i] = 0;
    }
    for (int64_t key = 0; key < p.VisibleTo(query + queries - 1); key += rows) {
      const int64_t keys = p.s - key < rows ? p.s - key : rows, from = p.KAt(batch, key, group);
      attention::LoadTile<T>(team, in.k + from, p.k_row, keys, p.d, C(1), k);
      attention::LoadTile<T>(team, in.v + from, p.k_row, keys, p.d, C(1), v);
      team.Wait();
      for (int64_t i = team.rank; i < queries * keys; i += team.size) {
        const int64_t own = i / keys, other = i % keys;
        scores[own * score_row + other] =
            attention::Score<T>(p, in.mask, batch, head, query + own, key + other, q + own * row, k + other * row);
      }
      team.Wait();
      for (int64_t i = team.rank; i < queries; i += team.size) {
        Exponentiate(keys, scores + i * score_row, top[i], sum[i], fade[i]);
      }
      team.Wait();
      for (int64_t i = team.rank; i < queries * p.d; i += team.size) {
        const int64_t own = i / p.d, c = i % p.d;
        C value = sums[own * row + c] * fade[own];
        for (int64_t j = 0; j < keys; ++j) value += scores[own * score_row + j] * v[j * row + c];
        sums[own * row + c] = value;
      }
      team.Wait();
    }
    team.Wait();
    for (int64_t i = team.rank; i < queries * p.d; i += team.size) {
      const int64_t own = i / p.d, c = i % p.d;
      const C value = sum[own] == 0 ? C(0) : sums[own * row + c] / sum[own];
      y[p.YAt(batch, query + own, head) + c] = gpu::Narrow<T>(value);
    }
    for (int64_t i = team.rank; i < queries; i += team.size) {
      log_sum_exp[p.RowAt(batch, query + i, head)] =
          sum[i] == 0 ? -std::numeric_limits<C>::infinity() : top[i] + std::log(sum[i]);
    }
  }
};

template <class T, bool packed>
absl::StatusOr<Kernel> MakeGpuAttention(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  constexpr int kMask = packed ? 1 : 3;
  const Problem p = attention::MakeProblem(spec, packed, kMask);
  ASSIGN_OR_RETURN(const Tiling tiling, Tiling::For<C>(p.d, 4, 1, 3));
  return Kernel{[p, tiling](const KernelContext& at) {
    const AttendTile<T> body{p, tiling.rows, Operands<S>(p, at, packed, kMask), at.output<S>(0), at.output<C>(1)};
    return gpu::ForEachBlock(*at.stream, p.n * p.h * tiling.Tiles(p.t), tiling.bytes, body);
  }};
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
