// Euclidean norms that do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "framework/base/parallel.h"
#include "ops/common/square_range_impl.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {

// Elements per chunk. Squares are summed within chunks and then across them, so the order of additions is fixed. They
// are summed in double, where those of floats are exact and in range: so the norms of the parts of a tensor, combined,
// round to the same float as that of the whole.
inline constexpr int64_t kNormChunk = 4096;

inline int64_t NormChunks(int64_t n) { return (n + kNormChunk - 1) / kNormChunk; }

// partial[chunk] = f(elements of the chunk, a vector of doubles), for every chunk of n elements.
template <class T, class F>
void ForNormChunks(const T* data, int64_t n, double* partial, const F& f) {
  ParallelFor(NormChunks(n), 2 * kNormChunk, [=](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kNormChunk;
      const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(data + first, std::min(kNormChunk, n - first));
      partial[chunk] = f(x.template cast<double>());
    }
  });
}

// The sum of n squares. `partial` has room for NormChunks(n) doubles.
template <class T, class View>
double SquaredNorm(const T* data, int64_t n, double* partial, const View& view) {
  ForNormChunks(data, n, partial, [=](const auto& x) { return view(x).square().sum(); });
  double sum = 0;
  for (int64_t chunk = 0; chunk < NormChunks(n); ++chunk) sum += partial[chunk];
  return sum;
}

// The largest absolute value of n elements, apart from NaN.
template <class T>
double LargestMagnitude(const T* data, int64_t n, double* partial) {
  ForNormChunks(data, n, partial, [](const auto& x) {
    double largest = 0;
    for (int64_t i = 0; i < x.size(); ++i) largest = LargerMagnitude(largest, x.coeff(i));
    return largest;
  });
  double largest = 0;
  for (int64_t chunk = 0; chunk < NormChunks(n); ++chunk) largest = std::max(largest, partial[chunk]);
  return largest;
}

// The Euclidean norm of several tensors of T together. for_each(f) calls f(data, n) for each of them. `partial` has
// room for NormChunks of the largest. Finite unless it exceeds the largest double, or an element is not finite.
template <class T, class ForEach>
double EuclideanNorm(double* partial, const ForEach& for_each) {
  double squares = 0;
  for_each([&](const T* data, int64_t n) { squares += SquaredNorm(data, n, partial, Unscaled()); });
  if (SquaresInRange(squares)) return std::sqrt(squares);
  double largest = 0;
  for_each([&](const T* data, int64_t n) { largest = std::max(largest, LargestMagnitude(data, n, partial)); });
  const double scale = SquareScale(largest);
  const auto view = [scale](const auto& x) { return x * scale; };
  squares = 0;
  for_each([&](const T* data, int64_t n) { squares += SquaredNorm(data, n, partial, view); });
  return std::sqrt(squares) / scale;
}
template <class T>
double EuclideanNorm(const T* data, int64_t n, double* partial) {
  return EuclideanNorm<T>(partial, [=](const auto& f) { f(data, n); });
}

}  // namespace belfry::ops
