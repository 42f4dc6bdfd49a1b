// Instructions of tensor cores, for warp_tiles.h. A lane's parts of a matrix: PTX ISA, "Matrix Fragments for
// mma.m16n8k16", "... for mma.m16n8k8" and "ldmatrix".
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/device/cuda/launch.h"

namespace belfry::gpu {
namespace internal {

// Two 16-bit numbers, the first one in the low half.
template <class T>
__device__ inline uint32_t Pair(float low, float high) {
  uint32_t pair;
  if constexpr (std::is_same_v<T, Half>) {
    const __half2 both = __floats2half2_rn(low, high);
    memcpy(&pair, &both, sizeof(pair));
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    memcpy(&pair, &both, sizeof(pair));
  }
  return pair;
}

// float32 rounded to TF32's 10 bits of mantissa, halves away from 0.
__device__ inline uint32_t RoundToTf32(float x) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

// Matrix m of four [8, 8] of 16 bits, or [8, 4] of 32, whose row r begins at the address that lane 8 m + r gives: this
// lane's two elements of each, (lane / 4, lane % 4 * 2 + {0, 1}), or of the transposed matrix.
template <bool transposed>
__device__ inline void LoadMatrices(const void* row, uint32_t (&m)[4]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(address)
                 : "memory");
  }
}

// c [16, 8] += a [16, k] b [k, 8], where k elements of T take 32 bytes. `low` and `high`: this lane's two elements of c
// in its row of the upper and of the lower half.
template <class T>
__device__ inline void MultiplyFragments(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float* low, float* high) {
  if constexpr (std::is_same_v<T, Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, float>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(low[0]), "+f"(low[1]), "+f"(high[0]), "+f"(high[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The neighbouring elements that 16 bytes hold.
template <class C>
struct alignas(16) Pack {
  static constexpr int kSize = static_cast<int>(16 / sizeof(C));
  C at[kSize];
};
template <class C>
__device__ inline const Pack<C>& PackAt(const C* x) {
  return *reinterpret_cast<const Pack<C>*>(x);
}

}  // namespace internal

}  // namespace belfry::gpu
