// Sums over elements, such as sums of squares, on GPUs. Only for .cu files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
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

// partial[chunk] = sum of f over the chunk. Up to kUnroll values are added in their own type, and these sums in double.
template <class T, class F>
absl::Status GpuChunkSums(Stream& stream, const NormTensors<T>& tensors, double* partial, const F& f) {
  using C = gpu::Compute<T>;
  return gpu::ForEachRow(stream, tensors.parts.chunks(), kGpuNormChunk,
                         [=] BELFRY_GPU(int64_t chunk, const gpu::Team& team) {
                           const auto part = tensors.parts.Find(chunk);
                           const int64_t n = part.n;
                           const gpu::Stored<T>* const x = tensors.x[part.tensor] + part.begin;
                           constexpr int kUnroll = 8;
                           double sum = 0;
                           int64_t i = team.rank;
                           for (; i + (kUnroll - 1) * team.size < n; i += kUnroll * team.size) {
                             C value[kUnroll], lane = 0;
                             for (int u = 0; u < kUnroll; ++u) value[u] = gpu::Widen(x[i + u * team.size]);
                             for (int u = 0; u < kUnroll; ++u) lane += f(value[u]);
                             sum += static_cast<double>(lane);
                           }
                           for (; i < n; i += team.size) {
                             sum += static_cast<double>(f(static_cast<C>(gpu::Widen(x[i]))));
                           }
                           sum = team.Sum(sum);
                           if (team.rank == 0) partial[chunk] = sum;
                         });
}

struct SquareOf {
  template <class C>
  BELFRY_GPU C operator()(C x) const {
    return x * x;
  }
};
template <class T>
absl::Status GpuSquaredNorms(Stream& stream, const NormTensors<T>& tensors, double* partial) {
  return GpuChunkSums(stream, tensors, partial, SquareOf());
}

// The same for all inputs of a node; `sizes` holds their numbers of elements.
template <class T, class F>
absl::Status GpuChunkSumsOfInputs(const KernelContext& at, const std::vector<int64_t>& sizes, double* partial,
                                  const F& f) {
  for (size_t i = 0; i < sizes.size();) {
    NormTensors<T> tensors{};
    for (; i < sizes.size() && !tensors.parts.full(); ++i) {
      if (sizes[i] > 0) tensors.Add(at.input<gpu::Stored<T>>(static_cast<int>(i)), sizes[i]);
    }
    RETURN_IF_ERROR(GpuChunkSums(*at.stream, tensors, partial, f));
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
