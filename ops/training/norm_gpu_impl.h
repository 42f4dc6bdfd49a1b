// Sums and Euclidean norms over elements on GPUs. Only for .cu files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/common/square_range_impl.h"
#include "ops/training/chunks_gpu_impl.h"
#include "ops/training/rules.h"

namespace belfry::ops {

// Elements that one team sums.
inline constexpr int64_t kGpuNormChunk = 16 * 1024;
inline int64_t GpuNormChunks(int64_t n) { return ChunksOf(n, kGpuNormChunk); }

template <class T>
struct NormTensors {
  static constexpr int kMax = 64;
  const gpu::Stored<T>* x[kMax];
  TensorChunks<kMax, kGpuNormChunk> parts;

  // REQUIRES: n > 0, and not full.
  void Add(const gpu::Stored<T>* data, int64_t n) {
    x[parts.count] = data;
    parts.Add(n);
  }
};

// The sum of term(i) for i in [0, n), computed by a team. Up to kUnroll terms are added in their own type, and these
// sums in double.
template <class Term>
BELFRY_GPU double SumOfTeam(int64_t n, const gpu::Team& team, const Term& term) {
  constexpr int kUnroll = 8;
  using C = decltype(term(n));
  double sum = 0;
  int64_t i = team.rank;
  for (; i + (kUnroll - 1) * team.size < n; i += kUnroll * team.size) {
    C value[kUnroll], lane = 0;
    for (int u = 0; u < kUnroll; ++u) value[u] = term(i + u * team.size);
    for (int u = 0; u < kUnroll; ++u) lane += value[u];
    sum += static_cast<double>(lane);
  }
  for (; i < n; i += team.size) sum += static_cast<double>(term(i));
  return team.Sum(sum);
}

// partial[chunk] = sum of f over the chunk.
template <class T, class F>
absl::Status GpuChunkSums(Stream& stream, const NormTensors<T>& tensors, double* partial, const F& f) {
  using C = gpu::Compute<T>;
  return gpu::ForEachRow(
      stream, tensors.parts.chunks(), kGpuNormChunk, [=] BELFRY_GPU(int64_t chunk, const gpu::Team& team) {
        const auto part = tensors.parts.Find(chunk);
        const gpu::Stored<T>* const x = tensors.x[part.tensor] + part.begin;
        const double sum = SumOfTeam(part.n, team, [=](int64_t i) -> C { return f(static_cast<C>(gpu::Widen(x[i]))); });
        if (team.rank == 0) partial[chunk] = sum;
      });
}

// The Euclidean norm of n numbers, computed by a team, which reads them with at(i). Finite numbers have a finite norm
// unless it exceeds the largest double. Squares are summed in double, as on CPUs.
template <class At>
BELFRY_GPU double NormOfTeam(int64_t n, const gpu::Team& team, const At& at) {
  const double squares = SumOfTeam(n, team, [&](int64_t i) {
    const double x = at(i);
    return x * x;
  });
  if (SquaresInRange(squares)) return std::sqrt(squares);
  double largest = 0;
  for (int64_t i = team.rank; i < n; i += team.size) largest = LargerMagnitude(largest, static_cast<double>(at(i)));
  const double scale = SquareScale(team.Reduce(largest, [](double a, double b) { return a < b ? b : a; }));
  const double scaled = SumOfTeam(n, team, [&](int64_t i) {
    const double x = at(i) * scale;
    return x * x;
  });
  return std::sqrt(scaled) / scale;
}

// partial[chunk] = the Euclidean norm of the chunk.
template <class T>
absl::Status GpuChunkNorms(Stream& stream, const NormTensors<T>& tensors, double* partial) {
  return gpu::ForEachRow(stream, tensors.parts.chunks(), kGpuNormChunk,
                         [=] BELFRY_GPU(int64_t chunk, const gpu::Team& team) {
                           const auto part = tensors.parts.Find(chunk);
                           const gpu::Stored<T>* const x = tensors.x[part.tensor] + part.begin;
                           const double norm = NormOfTeam(part.n, team, [=](int64_t i) { return gpu::Widen(x[i]); });
                           if (team.rank == 0) partial[chunk] = norm;
                         });
}

// Calls launch(tensors, partial) for the inputs of a node, with as many tensors at a time as fit; `sizes` holds their
// numbers of elements.
template <class T, class Launch>
absl::Status ForNormInputs(const KernelContext& at, const std::vector<int64_t>& sizes, double* partial,
                           const Launch& launch) {
  for (size_t i = 0; i < sizes.size();) {
    NormTensors<T> tensors{};
    for (; i < sizes.size() && !tensors.parts.full(); ++i) {
      if (sizes[i] > 0) tensors.Add(at.input<gpu::Stored<T>>(static_cast<int>(i)), sizes[i]);
    }
    RETURN_IF_ERROR(launch(tensors, partial));
    partial += tensors.parts.chunks();
  }
  return absl::OkStatus();
}

// The sum of n numbers, computed by a team.
BELFRY_GPU inline double SumOf(const double* x, int64_t n, const gpu::Team& team) {
  double sum = 0;
  for (int64_t i = team.rank; i < n; i += team.size) sum += x[i];
  return team.Sum(sum);
}

}  // namespace belfry::ops
