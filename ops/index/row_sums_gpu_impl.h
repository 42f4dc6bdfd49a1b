// Sums of the slices of a tensor that have equal indices, on GPUs without atomics, so that they are reproducible: the
// indices are sorted together with their positions, chunks of the sorted list are summed, and the sums of rows that
// span several chunks are then combined. No thread adds up more than one chunk, or the sums of the chunks of one row.
// Only for .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/gpu/divider_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/sort_gpu_impl.h"

namespace belfry::ops {

// The sort key: an index, then its position. Indices out of range are replaced by `rows`, so they come last.
template <class Index>
struct RowKeyAt {
  const Index* indices;
  int64_t rows;
  BELFRY_GPU uint64_t operator()(int64_t i) const {
    const auto index = static_cast<int64_t>(indices[i]);
    return (static_cast<uint64_t>(index >= 0 && index < rows ? index : rows) << 32) | static_cast<uint64_t>(i);
  }
};
BELFRY_GPU inline int64_t RowOf(uint64_t key) { return static_cast<int64_t>(key >> 32); }
BELFRY_GPU inline int64_t PositionOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }

struct SumPlan {
  GatherLayout layout;
  int64_t chunk = 16, chunks = 0;  // keys per chunk of the sorted list, and number of chunks
  int64_t columns = 0;             // sums per chunk: outer * inner
  Divider inner, per_chunk;

  explicit SumPlan(const GatherLayout& given) : layout(given), columns(given.outer * given.inner) {
    constexpr int64_t kEnoughThreads = 1 << 18;
    while (chunk < 256 && layout.count / chunk * columns > kEnoughThreads) chunk *= 2;
    chunks = (layout.count + chunk - 1) / chunk;
    inner = Divider(layout.inner, columns);
    per_chunk = Divider(columns, chunks * columns);
  }

  struct Position {
    int64_t chunk, begin, end;  // keys
    int64_t outer, inner;
  };
  size_t sums() const { return static_cast<size_t>(chunks * columns); }
  template <class C>
  size_t workspace_bytes() const {
    return 2 * static_cast<size_t>(layout.count) * sizeof(uint64_t) + 2 * sums() * sizeof(C);
  }
  BELFRY_GPU Position Find(int64_t i) const {
    Position at;
    at.outer = per_chunk.Split(i);
    at.chunk = i;
    at.inner = inner.Split(at.outer);
    at.begin = at.chunk * chunk;
    at.end = at.begin + chunk < layout.count ? at.begin + chunk : layout.count;
    return at;
  }
};

// Stores the sums of rows that lie within one chunk. If a row started in an earlier chunk, this chunk's part of the sum
// goes to `head`; if a row continues in the next chunk, its first part goes to `tail`.
template <class T, class Target>
absl::Status SumChunks(Stream& stream, const SumPlan& plan, const uint64_t* keys, const gpu::Stored<T>* x,
                       gpu::Compute<T>* head, gpu::Compute<T>* tail, const Target& target) {
  return gpu::ForEach(stream, plan.chunks * plan.columns, [=] BELFRY_GPU(int64_t i) {
    const auto at = plan.Find(i);
    const GatherLayout& layout = plan.layout;
    const int64_t before = at.begin > 0 ? RowOf(keys[at.begin - 1]) : -1;
    const int64_t after = at.end < layout.count ? RowOf(keys[at.end]) : -1;
    uint64_t first = keys[at.begin];
    int64_t row = RowOf(first);
    gpu::Compute<T> sum = 0;
    for (int64_t k = at.begin; k < at.end; ++k) {
      const uint64_t key = keys[k];
      if (RowOf(key) != row) {
        if (row == before) {
          head[i] = sum;
        } else {
          *target.At(layout, first, at.outer, at.inner) = gpu::Narrow<T>(sum);
        }
        first = key;
        row = RowOf(key);
        sum = 0;
      }
      if (row == layout.rows) break;
      sum += gpu::Widen(x[(at.outer * layout.count + PositionOf(key)) * layout.inner + at.inner]);
    }
    if (row == before) {
      head[i] = sum;
    } else if (row == after) {
      tail[i] = sum;
    } else if (row < layout.rows) {
      *target.At(layout, first, at.outer, at.inner) = gpu::Narrow<T>(sum);
    }
  });
}

// Combines the sums of each row that spans several chunks. The chunk in which the row starts does the work.
template <class T, class Target>
absl::Status JoinChunks(Stream& stream, const SumPlan& plan, const uint64_t* keys, const gpu::Compute<T>* head,
                        const gpu::Compute<T>* tail, const Target& target) {
  return gpu::ForEach(stream, plan.chunks * plan.columns, [=] BELFRY_GPU(int64_t i) {
    const auto at = plan.Find(i);
    const GatherLayout& layout = plan.layout;
    const int64_t row = RowOf(keys[at.end - 1]);
    if (row == layout.rows || at.end == layout.count || RowOf(keys[at.end]) != row) return;
    if (at.begin > 0 && RowOf(keys[at.begin - 1]) == row) return;
    const uint64_t next_row = static_cast<uint64_t>(row + 1) << 32;
    const int64_t shared = CountLess(keys, at.end, layout.count, next_row);
    const int64_t more = (shared + plan.chunk - 1) / plan.chunk;
    gpu::Compute<T> sums[4] = {tail[i], 0, 0, 0};
    const gpu::Compute<T>* from = head + i + plan.columns;
    int64_t c = 0;
    for (; c + 4 <= more; c += 4) {
      for (int k = 0; k < 4; ++k) sums[k] += from[(c + k) * plan.columns];
    }
    for (; c < more; ++c) sums[0] += from[c * plan.columns];
    const int64_t begin = at.begin + CountLess(keys, at.begin, at.end, static_cast<uint64_t>(row) << 32);
    *target.At(layout, keys[begin], at.outer, at.inner) = gpu::Narrow<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  });
}

// Enqueues the sums of the slices x [outer, count, inner] with equal indices: those of each row in [0, rows) go to
// target.At(layout, key, outer, inner), a device function, where `key` is that of the row's first position. Rows
// without a slice are not written. Returns the sorted keys, which are in the workspace of workspace_bytes<Compute<T>>()
// bytes.
template <class T, class Index, class Target>
absl::StatusOr<const uint64_t*> SumEqualRows(Stream& stream, const SumPlan& plan, const Index* indices,
                                             const gpu::Stored<T>* x, void* workspace, const Target& target) {
  using C = gpu::Compute<T>;
  const int64_t count = plan.layout.count;
  auto* const a = static_cast<uint64_t*>(workspace);
  uint64_t* const b = a + count;
  C *const head = reinterpret_cast<C*>(b + count), *const tail = head + plan.sums();
  RETURN_IF_ERROR(SortKeys(stream, count, RowKeyAt<Index>{indices, plan.layout.rows}, a, b));
  const uint64_t* const sorted = SortedIn(count, a, b);
  RETURN_IF_ERROR(SumChunks<T>(stream, plan, sorted, x, head, tail, target));
  RETURN_IF_ERROR(JoinChunks<T>(stream, plan, sorted, head, tail, target));
  return sorted;
}

}  // namespace belfry::ops
