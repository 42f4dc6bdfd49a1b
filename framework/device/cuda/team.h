// GPU kernels over rows, on each of which a team of threads works together. Apart from launch.h because CUB takes long
// to compile.
#pragma once

#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <cub/util_ptx.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <type_traits>

#include "framework/device/cuda/launch.h"

namespace belfry::gpu {

namespace internal {
inline constexpr int kWarp = 32;
}  // namespace internal

// The threads that work on one row. Each has a rank below `size` and takes the elements rank, rank + size, ...
// All threads of a team must reach the same calls in the same order.
struct Team {
  int rank, size;  // size: a warp, or all threads of a block

  // op over the values of all threads; every thread gets the result. T is trivially copyable, up to 16 bytes; op is
  // associative and commutative but for rounding. The order depends on `size` alone.
  template <class T, class Op>
  __device__ T Reduce(T value, Op op) const {
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
    if (size == internal::kWarp) {
      using Warp = cub::WarpReduce<T>;
      __shared__ typename Warp::TempStorage memory[internal::kThreads / internal::kWarp];
      value = Warp(memory[threadIdx.x / internal::kWarp]).Reduce(value, op);
      return cub::ShuffleIndex<internal::kWarp>(value, 0, 0xffffffffu);
    }
    using Block = cub::BlockReduce<T, internal::kThreads>;
    __shared__ typename Block::TempStorage memory;
    __shared__ alignas(16) unsigned char result[16];
    __syncthreads();
    value = Block(memory).Reduce(value, op);
    if (rank == 0) *reinterpret_cast<T*>(result) = value;
    __syncthreads();
    return *reinterpret_cast<T*>(result);
  }
  template <class T>
  __device__ T Sum(T value) const {
    return Reduce(value, [](T a, T b) { return a + b; });
  }
  // Waits until all threads are here; what they wrote before, all may read.
  __device__ void Wait() const {
    if (size == internal::kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

namespace internal {

template <class Body>
__global__ void __launch_bounds__(kThreads) WarpPerRow(int64_t rows, Body body) {
  constexpr int kRows = kThreads / kWarp;
  const Team team{static_cast<int>(threadIdx.x) % kWarp, kWarp};
  const int64_t step = int64_t{gridDim.x} * kRows;
  for (int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp; row < rows; row += step) body(row, team);
}
template <class Body>
__global__ void __launch_bounds__(kThreads) BlockPerRow(int64_t rows, Body body) {
  const Team team{static_cast<int>(threadIdx.x), kThreads};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    body(row, team);
    __syncthreads();
  }
}

}  // namespace internal

// Enqueues body(row, team) for the rows [0, rows), in any order, each called by every thread of one team.
// `work` is about the elements of a row: rows of many get a larger team.
template <class Body>
absl::Status ForEachRow(Stream& stream, int64_t rows, int64_t work, const Body& body) {
  using namespace internal;  // NOLINT
  if (rows <= 0) return absl::OkStatus();
  if (work <= 1024) {
    constexpr int kRows = kThreads / kWarp;
    WarpPerRow<<<Blocks((rows + kRows - 1) / kRows), kThreads, 0, NativeStream(stream)>>>(rows, body);
  } else {
    BlockPerRow<<<Blocks(rows), kThreads, 0, NativeStream(stream)>>>(rows, body);
  }
  return Launched();
}

}  // namespace belfry::gpu
