// Sorting on a GPU without atomics; the steps do not depend on the keys. Only for .cu files.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"

namespace belfry::ops {

// Length of the runs that are sorted by counting and then merged in pairs.
inline constexpr int64_t kSortRun = 256;

// Number of keys in sorted[begin, end) that are less than `key`.
BELFRY_GPU inline int64_t CountLess(const uint64_t* sorted, int64_t begin, int64_t end, uint64_t key) {
  const int64_t first = begin;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (sorted[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin - first;
}

// The one of SortKeys' two arrays that ends up with the sorted keys.
inline uint64_t* SortedIn(int64_t n, uint64_t* a, uint64_t* b) {
  bool swapped = false;
  for (int64_t run = kSortRun; run < n; run *= 2) swapped = !swapped;
  return swapped ? b : a;
}

template <class KeyAt>
absl::Status SortRuns(Stream& stream, int64_t n, KeyAt key, uint64_t* to) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const int64_t begin = i / kSortRun * kSortRun, end = begin + kSortRun < n ? begin + kSortRun : n;
    const uint64_t own = key(i);
    int64_t less = 0;
    for (int64_t j = begin; j < end; ++j) less += key(j) < own ? 1 : 0;
    to[begin + less] = own;
  });
}

// Merges each pair of adjacent sorted runs of `run` keys.
template <class Key>
absl::Status MergePairs(Stream& stream, int64_t n, int64_t run, const Key* from, Key* to) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const int64_t own = i / run * run, base = own / (2 * run) * (2 * run);
    const int64_t other = own == base ? base + run : base;
    const int64_t begin = other < n ? other : n, end = begin + run < n ? begin + run : n;
    const Key key = from[i];
    to[base + (i - own) + CountLess(from, begin, end, key)] = key;
  });
}

// Sorts the keys key(i) for i in [0, n), which must be distinct. `a` and `b` have room for n keys; the result is in
// SortedIn(n, a, b). KeyAt has a device function `uint64_t operator()(int64_t) const`.
template <class KeyAt>
absl::Status SortKeys(Stream& stream, int64_t n, KeyAt key, uint64_t* a, uint64_t* b) {
  RETURN_IF_ERROR(SortRuns(stream, n, key, a));
  for (int64_t run = kSortRun; run < n; run *= 2) {
    RETURN_IF_ERROR(MergePairs(stream, n, run, a, b));
    std::swap(a, b);
  }
  return absl::OkStatus();
}

}  // namespace belfry::ops
