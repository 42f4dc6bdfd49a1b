// Attention on CPUs, blockwise (Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023).
#include <cmath>

#include "framework/base/parallel.h"
#include "ops/attention/attention_impl.h"
#include "ops/attention/blocks_impl.h"

namespace belfry::ops::attention {
namespace {

// A task is a chunk of one head's queries, which reads each block of keys once.
constexpr int64_t kBlocksPerTask = 4, kQueriesPerTask = kBlocksPerTask * kQueries;

// The state of a block of queries, and one thread's memory for a task.
template <class C>
struct QueryBlock {
  C *qt, *y;            // [d, kQueries], [kQueries, width]
  C *top, *sum, *fade;  // [kQueries]; of the keys so far, in units of log(2); fade: the factor on older terms
  bool started;
};
template <class C>
struct Scratch {
  QueryBlock<C> blocks[kBlocksPerTask];
  C *k, *v, *rows, *scores;

  static int64_t Elements(const Problem& p) {
    const int64_t width = PaddedWidth<C>(p.d), block = p.d * kQueries + kQueries * width + 3 * kQueries;
    return kBlocksPerTask * block + 2 * kKeys * width + kQueries * width + kKeys * kQueries;
  }
  Scratch(const Problem& p, C* at) {
    const int64_t width = PaddedWidth<C>(p.d);
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    for (QueryBlock<C>& b : blocks) {
      b = {take(p.d * kQueries), take(kQueries * width), take(kQueries), take(kQueries), take(kQueries), false};
    }
    k = take(kKeys * width), v = take(kKeys * width), rows = take(kQueries * width), scores = take(kKeys * kQueries);
  }
};

// Replaces the scores of `width` registers of queries by probabilities relative to the largest score so far.
template <class C, int width>
void Exponentiate(const BlockPair& at, int64_t first, C* scores, QueryBlock<C>& block) {
  using V = Vector<C>;
  using Lanes = typename V::Lanes;
  Lanes top[width], sum[width] = {};
  scores += first;
  for (int w = 0; w < width; ++w) top[w] = V::Load(block.top + first + w * V::kLanes);
  for (int64_t j = 0; j < at.keys; ++j) {
    for (int w = 0; w < width; ++w) top[w] = V::Max(top[w], V::Load(scores + j * kQueries + w * V::kLanes));
  }
  for (int w = 0; w < width; ++w) {
    C *const old_top = block.top + first + w * V::kLanes, *const old_sum = block.sum + first + w * V::kLanes;
    const Lanes least = V::Fill(-std::numeric_limits<C>::infinity());
    const Lanes shift = V::Choose(top[w] == least, Lanes{}, top[w]);
    const Lanes fade = simd::Exp2OfNegative(V::Load(old_top) - shift);
    V::Store(fade, block.fade + first + w * V::kLanes);
    V::Store(top[w], old_top);
    sum[w] = V::Load(old_sum) * fade;
    top[w] = shift;
  }
  for (int64_t j = 0; j < at.keys; ++j) {
    for (int w = 0; w < width; ++w) {
      C* const to = scores + j * kQueries + w * V::kLanes;
      const Lanes probability = simd::Exp2OfNegative(V::Load(to) - top[w]);
      sum[w] += probability;
      V::Store(probability, to);
    }
  }
  for (int w = 0; w < width; ++w) V::Store(sum[w], block.sum + first + w * V::kLanes);
}

template <class C>
void ExponentiateBlock(const BlockPair& at, C* scores, QueryBlock<C>& block) {
  constexpr int64_t kLanes = Vector<C>::kLanes;
  int64_t i = 0;
  for (; i + 4 * kLanes <= at.queries; i += 4 * kLanes) Exponentiate<C, 4>(at, i, scores, block);
  for (; i < at.queries; i += kLanes) Exponentiate<C, 1>(at, i, scores, block);
}

template <class T>
void StartBlock(const Problem& p, const BlockPair& at, const T* q, Scratch<Compute<T>>& scratch,
                QueryBlock<Compute<T>>& block) {
  using C = Compute<T>;
  const Rows<C> rows =
      LoadRows(q + p.QAt(at.batch, at.query, at.head), p.q_row, at.queries, p.d, /*copy=*/false, scratch.rows);
  TransposeQueries(rows, at.queries, p.d, p.scale * kLog2E, block.qt);
  std::fill_n(block.top, kQueries, -std::numeric_limits<C>::infinity());
  std::fill_n(block.sum, kQueries, C(0));
  block.started = false;
}

template <class T>
void AddBlock(const Problem& p, const BlockPair& at, const Rows<Compute<T>>& k, const Rows<Compute<T>>& v,
              const T* mask, Compute<T>* scores, QueryBlock<Compute<T>>& block) {
  using C = Compute<T>;
  const int64_t width = PaddedWidth<C>(p.d), vectors = WholeVectors<C>(p.d);
  FindScores(p, at, k.at, k.stride, block.qt, mask, scores);
  ExponentiateBlock(at, scores, block);
  if (!block.started) {
    block.started = true;
    return Multiply<C, true, false>(at.queries, vectors, scores, kQueries, v.at, v.stride, block.y, width,
                                    at.OverKeys());
  }
  for (int64_t i = 0; i < at.queries; ++i) {
    const C fade = block.fade[i];
    if (fade == 1) continue;
    for (int64_t j = 0; j < width; ++j) block.y[i * width + j] *= fade;
  }
  Multiply<C, true, true>(at.queries, vectors, scores, kQueries, v.at, v.stride, block.y, width, at.OverKeys());
}

template <class T>
void FinishBlock(const Problem& p, const BlockPair& at, const QueryBlock<Compute<T>>& block, T* y,
                 Compute<T>* log_sum_exp) {
  using C = Compute<T>;
  const int64_t width = PaddedWidth<C>(p.d);
  for (int64_t i = 0; i < at.queries; ++i) {
    T* const to = y + p.YAt(at.batch, at.query + i, at.head);
    C* const from = block.y + i * width;
    const C sum = block.sum[i];
    const bool empty = !block.started || sum == 0;
    const C share = empty ? C(0) : 1 / sum;
    if (empty) std::fill_n(from, p.d, C(0));
    for (int64_t j = 0; j < p.d; ++j) from[j] *= share;
    Store(from, p.d, to);
    log_sum_exp[p.RowAt(at.batch, at.query + i, at.head)] =
        empty ? -std::numeric_limits<C>::infinity() : (block.top[i] + std::log2(sum)) / static_cast<C>(kLog2E);
  }
}

template <class T>
void RunTask(const Problem& p, int64_t task, int64_t chunks, const Operands<T>& in, T* y, Compute<T>* log_sum_exp,
             Scratch<Compute<T>>& scratch) {
  using C = Compute<T>;
  const int64_t begin = task % chunks * kQueriesPerTask, end = std::min(p.t, begin + kQueriesPerTask);
  const int64_t head = task / chunks % p.h, batch = task / chunks / p.h, group = head / (p.h / p.g);
  const auto for_blocks = [&](int64_t key, const auto& body) {
    for (int64_t query = begin; query < end; query += kQueries) {
      body(BlockPair(p, batch, head, query, key), scratch.blocks[(query - begin) / kQueries]);
    }
  };
  for_blocks(0, [&](const BlockPair& at, QueryBlock<C>& block) { StartBlock(p, at, in.q, scratch, block); });
  for (int64_t key = 0; key < p.VisibleTo(end - 1); key += kKeys) {
    const int64_t keys = std::min(kKeys, p.s - key), from = p.KAt(batch, key, group);
    const Rows<C> k = LoadRows(in.k + from, p.k_row, keys, p.d, /*copy=*/false, scratch.k);
    const Rows<C> v = LoadRows(in.v + from, p.k_row, keys, p.d, /*copy=*/true, scratch.v);
    ClearHidden(p, batch, head, key, keys, in.mask, scratch.v);
    for_blocks(key, [&](const BlockPair& at, QueryBlock<C>& block) {
      if (!at.Hidden()) AddBlock(p, at, k, v, in.mask, scratch.scores, block);
    });
  }
  for_blocks(0, [&](const BlockPair& at, QueryBlock<C>& block) { FinishBlock(p, at, block, y, log_sum_exp); });
}

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeForward(const KernelSpec& spec, bool packed) {
  using C = Compute<T>;
  const Problem p = MakeProblem(spec, packed, packed ? 1 : 3);
  const int64_t chunks = (p.t + kQueriesPerTask - 1) / kQueriesPerTask, tasks = p.n * p.h * chunks;
  const int64_t threads = std::clamp<int64_t>(tasks, 1, ParallelThreads());
  const int64_t per_thread = Scratch<C>::Elements(p);
  const double cost = 4 * p.Products() / static_cast<double>(Vector<C>::kLanes * threads);
  return Kernel{[=](const KernelContext& context) {
                  const Operands<T> in(p, context, packed, packed ? 1 : 3);
                  T* const y = context.output<T>(0);
                  C* const log_sum_exp = context.output<C>(1);
                  ParallelFor(threads, cost, [&](int64_t first, int64_t last) {
                    for (int64_t thread = first; thread < last; ++thread) {
                      Scratch<C> scratch(p, static_cast<C*>(context.workspace) + thread * per_thread);
                      for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; ++task) {
                        RunTask(p, task, chunks, in, y, log_sum_exp, scratch);
                      }
                    }
                  });
                  return absl::OkStatus();
                },
                static_cast<size_t>(threads * per_thread) * sizeof(C)};
}

template absl::StatusOr<Kernel> MakeForward<float>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeForward<double>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeForward<Half>(const KernelSpec&, bool);
template absl::StatusOr<Kernel> MakeForward<BFloat16>(const KernelSpec&, bool);

}  // namespace belfry::ops::attention
