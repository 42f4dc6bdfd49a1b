// Launching GPU kernels: a kernel is a body called for each index, or for each row by a team of threads. Nothing else
// in a .cu file is specific to CUDA, so tests compile the same files for the host (tests/fake_gpu/launch), where every
// body runs, with sanitizers, on a machine without a GPU.
//
//   absl::Status Negate(Stream& stream, int64_t n, const float* x, float* y) {
//     return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { y[i] = -x[i]; });
//   }
//
// Bodies capture pointers and plain values by copy; they neither allocate nor throw. nvcc does not accept a body
// defined in a private member function or a generic lambda.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <cub/util_ptx.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/dtype.h"
#include "framework/device/cuda/native.h"
#include "framework/device/device.h"

#define BELFRY_GPU __device__

namespace belfry::gpu {

// Stored<T> is the device type of elements of dtype T; Compute<T> is the type that kernels compute in.
template <class T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<Half> {
  using type = __half;
};
template <>
struct StoredAs<BFloat16> {
  using type = __nv_bfloat16;
};
template <class T>
using Stored = typename StoredAs<T>::type;
template <class T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
using Compute = std::conditional_t<kIsSixteenBit<T>, float, T>;

// Conversions from the stored type to the compute type and back.
template <class S>
__device__ inline auto Widen(S x) {
  if constexpr (std::is_same_v<S, __half>) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<S, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else {
    return x;
  }
}
template <class T>
__device__ inline Stored<T> Narrow(Compute<T> x) {
  if constexpr (std::is_same_v<T, Half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

// Writes a word to host memory (Device::AllocateHost) that the host may read at the same time: it sees all of the write
// or none.
__device__ inline void TellHost(uint64_t* to, uint64_t value) {
  *static_cast<volatile uint64_t*>(to) = value;  // st.volatile is st.relaxed.sys (PTX ISA).
}

namespace internal {
inline constexpr int kThreads = 256, kWarp = 32;
}  // namespace internal

// The threads that work on one row. Each has a rank below `size` and takes the elements rank, rank + size, ... All
// threads of a team must make the same calls in the same order.
struct Team {
  int rank, size;  // size: 32 (a warp) or all threads of a block

  // Combines the values of all threads with op; every thread gets the result. T is trivially copyable and at most 16
  // bytes; op is associative and commutative except for rounding. The order of combination depends only on `size`.
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
  // Waits until all threads of the team are here; all of them then see what any wrote before.
  __device__ void Wait() const {
    if (size == internal::kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

namespace internal {

inline constexpr int64_t kMaxBlocks = int64_t{1} << 20;

template <class Body>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, Body body) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) body(i);
}
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

template <class Body>
__global__ void __launch_bounds__(kThreads) SharingBlocks(int64_t blocks, Body body) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Team team{static_cast<int>(threadIdx.x), kThreads};
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    body(block, team, static_cast<void*>(shared));
    __syncthreads();
  }
}

template <class Body, class Last>
__global__ void __launch_bounds__(kThreads) BlocksThenLast(int64_t parts, uint32_t* tickets, Body body, Last last) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ bool is_last;
  const Team team{static_cast<int>(threadIdx.x), kThreads};
  const int64_t group = blockIdx.x / parts;
  body(group, static_cast<int64_t>(blockIdx.x) - group * parts, team, static_cast<void*>(shared));
  // The fences order this block's writes before its ticket, and the others' before what the last one reads.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&tickets[group], 1u) == static_cast<uint32_t>(parts - 1);
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  if (threadIdx.x == 0) tickets[group] = 0;
  last(group, team, static_cast<void*>(shared));
}

inline unsigned Blocks(int64_t wanted) { return static_cast<unsigned>(std::min(wanted, kMaxBlocks)); }

inline absl::Status Launched() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("launching a CUDA kernel: ", cudaGetErrorString(error)));
}

}  // namespace internal

// Enqueues body(i) for every i in [0, n), in any order.
template <class Body>
absl::Status ForEach(Stream& stream, int64_t n, const Body& body) {
  using namespace internal;  // NOLINT
  if (n <= 0) return absl::OkStatus();
  ForEachKernel<<<Blocks((n + kThreads - 1) / kThreads), kThreads, 0, NativeStream(stream)>>>(n, body);
  return Launched();
}

// Enqueues body(row, team) for every row in [0, rows), in any order; each is called by all threads of one team. `work`
// is roughly the number of elements in a row; long rows get a larger team.
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

// Enqueues body(block, team, shared) for every block in [0, blocks), in any order; each is called by all threads of one
// team, which share `bytes` bytes at `shared`, aligned to 16 and not initialised. REQUIRES: bytes <= kMaxSharedBytes.
inline constexpr size_t kMaxSharedBytes = 44 * 1024;  // of 48 KiB; Team::Reduce needs some
template <class Body>
absl::Status ForEachBlock(Stream& stream, int64_t blocks, size_t bytes, const Body& body) {
  using namespace internal;  // NOLINT
  if (blocks <= 0) return absl::OkStatus();
  SharingBlocks<<<Blocks(blocks), kThreads, bytes, NativeStream(stream)>>>(blocks, body);
  return Launched();
}

// Enqueues body(group, part, team, shared) for every part in [0, parts) of every group in [0, groups), in any order, as
// ForEachBlock does, and last(group, team, shared) once all parts of a group are done, which sees what they wrote.
// `tickets`: `groups` words of the device's that are 0, and are 0 again afterwards; no other work uses them meanwhile.
// REQUIRES: groups * parts < 2^31.
template <class Body, class Last>
absl::Status ForEachBlockThenLast(Stream& stream, int64_t groups, int64_t parts, size_t bytes, uint32_t* tickets,
                                  const Body& body, const Last& last) {
  using namespace internal;  // NOLINT
  if (groups <= 0 || parts <= 0) return absl::OkStatus();
  BlocksThenLast<<<static_cast<unsigned>(groups * parts), kThreads, bytes, NativeStream(stream)>>>(parts, tickets, body,
                                                                                                   last);
  return Launched();
}

// Enqueue a copy of `bytes` within a device's memory, and setting `bytes` bytes to `value`.
inline absl::Status CopyBytes(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return absl::OkStatus();
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NativeStream(stream));
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}
inline absl::Status SetBytes(Stream& stream, void* to, unsigned char value, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const cudaError_t error = cudaMemsetAsync(to, value, bytes, NativeStream(stream));
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

}  // namespace belfry::gpu
