// How GPU kernels are written: as bodies over an index or, in team.h, over a row that threads work on together. Nothing
// else in a .cu file is CUDA's own, so tests compile the same files for the host (tests/fake_gpu/launch), where every
// body runs, with sanitizers, on a machine without a GPU.
//
//   absl::Status Negate(Stream& stream, int64_t n, const float* x, float* y) {
//     return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) { y[i] = -x[i]; });
//   }
//
// Bodies capture pointers and plain values by copy, allocate nothing and throw nothing. One that is made in a private
// member or in a generic lambda does not compile.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/dtype.h"
#include "framework/device/cuda/native.h"
#include "framework/device/device.h"

#define BELFRY_GPU __device__

namespace belfry::gpu {

// What an element of dtype T is in device code, and what it is computed in.
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

// From a stored element to what it is computed in, and back.
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

// Writes to host memory (Device::AllocateHost) which the host may read meanwhile: it sees all of the word, or none.
__device__ inline void TellHost(uint64_t* to, uint64_t value) {
  *static_cast<volatile uint64_t*>(to) = value;  // st.volatile is st.relaxed.sys (PTX ISA).
}

namespace internal {

inline constexpr int kThreads = 256;
inline constexpr int64_t kMostBlocks = int64_t{1} << 20;

template <class Body>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, Body body) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) body(i);
}
inline unsigned Blocks(int64_t wanted) { return static_cast<unsigned>(std::min(wanted, kMostBlocks)); }

inline absl::Status Launched() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("launching a CUDA kernel: ", cudaGetErrorString(error)));
}

}  // namespace internal

// Enqueues body(i) for i in [0, n), in any order.
template <class Body>
absl::Status ForEach(Stream& stream, int64_t n, const Body& body) {
  using namespace internal;  // NOLINT
  if (n <= 0) return absl::OkStatus();
  ForEachKernel<<<Blocks((n + kThreads - 1) / kThreads), kThreads, 0, NativeStream(stream)>>>(n, body);
  return Launched();
}

// Enqueues a copy of `bytes` within a device's memory, or setting them to `value`.
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
