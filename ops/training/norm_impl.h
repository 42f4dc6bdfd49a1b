// Sums of squares that do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/parallel.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {

// Elements per chunk. Squares are summed within chunks and then across them, so the order of additions is fixed.
inline constexpr int64_t kNormChunk = 4096;

inline int64_t NormChunks(int64_t n) { return (n + kNormChunk - 1) / kNormChunk; }

// The sum of n squares. `partial` has room for NormChunks(n) doubles.
template <class T>
double SquaredNorm(const T* data, int64_t n, double* partial) {
  ParallelFor(NormChunks(n), 2 * kNormChunk, [=](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kNormChunk;
      const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(data + first, std::min(kNormChunk, n - first));
      partial[chunk] = static_cast<double>(x.template cast<UpdateMath<T>>().square().sum());
    }
  });
  double sum = 0;
  for (int64_t chunk = 0; chunk < NormChunks(n); ++chunk) sum += partial[chunk];
  return sum;
}

}  // namespace belfry::ops
