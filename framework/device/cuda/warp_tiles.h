// Products of small matrices by the warps of a block, for .cu files. A warp has kTileRows rows of a matrix, of which
// each lane holds a part in registers: Warp says which. 16-bit products run on tensor cores (mma.sync) and are summed
// in float32; float32 and float64 are multiplied and added one by one. Nothing else in a .cu file knows how lanes share
// a tile, so tests compile the same files for the host (tests/fake_gpu/launch), where a warp is one thread.
//
// Matrices in shared memory have kPitch<T, columns> elements a row, by which rows that are read together use different
// banks, and are aligned to 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/device/cuda/launch.h"
#include "framework/device/cuda/registers.h"
#include "framework/device/cuda/warp_fragments.h"

namespace belfry::gpu {

inline constexpr int kTileRows = 16, kTileWarps = 4;

template <class T, int columns>
inline constexpr int kPitch = columns + static_cast<int>(16 / sizeof(Stored<T>));

// One thread of the kTileWarps warps of a block. All threads must make the same calls that wait, in the same order.
struct Warp {
  static constexpr int kRows = 2;  // of a tile, that a lane holds
  template <int columns>
  static constexpr int kColumns = columns / 4;                   // of each of these rows
  static constexpr int kThreads = kTileWarps * internal::kWarp;  // of a block

  int rank;  // in the block

  __device__ int index() const { return rank / internal::kWarp; }
  __device__ int lane() const { return rank % internal::kWarp; }
  // The row and the column in the tile of a lane's row i and column j.
  __device__ int Row(int i) const { return lane() / 4 + 8 * i; }
  __device__ int Column(int j) const { return lane() % 4 * 2 + j / 2 * 8 + j % 2; }
  // The lanes that share a row: their number, the place of this one among them, and whether it is the first.
  static constexpr int kRowLanes = 4;
  __device__ int RowLane() const { return lane() % kRowLanes; }
  __device__ bool Leads() const { return RowLane() == 0; }

  // Over the lanes that share a row; all get the result.
  template <class C>
  __device__ static C RowSum(C x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
  }
  template <class C>
  __device__ static C RowMax(C x) {
    for (int i = 1; i < 4; i *= 2) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
  }
  // Team::Wait for all threads of the block.
  __device__ static void WaitForBlock() { __syncthreads(); }
};

// 2^x; float32 within 2 ulp, subnormal results as 0.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline double Exp2(double x) { return exp2(x); }

// Begins to copy 16 bytes to shared memory, or to clear them if not `read`. Both addresses are aligned to 16.
__device__ inline void CopySixteenBytes(void* to, const void* from, bool read) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(read ? 16 : 0)
               : "memory");
}
// Waits for the copies that this thread began.
__device__ inline void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// A lane's part of a matrix [kTileRows, columns].
template <class C, int columns>
struct Tile {
  C at[Warp::kRows][Warp::kColumns<columns>];
};

// A warp's rows [kTileRows, columns] as the first factor of AddRowProducts. `memory` is kBytes of shared memory that
// the warp has for itself, aligned to 16.
template <class T, int columns, bool tensor_cores>
class OwnRows {
 public:
  static constexpr size_t kBytes = 0;

  // Reads `count` rows of `width` elements of x, whose row i begins at x + i stride; the others are 0.
  __device__ void Load(const Warp& warp, const Stored<T>* x, int64_t stride, int count, int width, void* /*memory*/) {
    for (int i = 0; i < Warp::kRows; ++i) {
      const auto* const row = x + warp.Row(i) * stride;
      const int limit = warp.Row(i) < count ? width : 0;
      BELFRY_UNROLL
      for (int half = 0; half < 2 * kSteps; ++half) {
        fragments_[half / 2][half % 2 * 2 + i] = Part(row, half, warp.lane() % 4, limit);
      }
    }
  }
  __device__ const uint32_t (&Fragment(int step) const)[4] { return fragments_[step]; }

 private:
  static constexpr int kSteps = columns * static_cast<int>(sizeof(Stored<T>)) / 32;

  // Part `lane` of the 16 bytes `half` of a row.
  __device__ static uint32_t Part(const Stored<T>* row, int half, int lane, int limit) {
    if constexpr (std::is_same_v<T, float>) {
      const int at = half * 4 + lane;
      return internal::RoundToTf32(at < limit ? row[at] : 0.0f);
    } else {
      const int at = half * 8 + lane * 2;
      const auto* const bits = reinterpret_cast<const uint16_t*>(row);
      const uint32_t low = at < limit ? bits[at] : 0, high = at + 1 < limit ? bits[at + 1] : 0;
      return low | high << 16;
    }
  }

  uint32_t fragments_[kSteps][4];
};
template <class T, int columns>
class OwnRows<T, columns, false> {
 public:
  static constexpr size_t kBytes = sizeof(Stored<T>) * kTileRows * kPitch<T, columns>;

  __device__ void Load(const Warp& warp, const T* x, int64_t stride, int count, int width, void* memory) {
    T* const rows = static_cast<T*>(memory);
    __syncwarp();
    for (int i = warp.lane(); i < kTileRows * columns; i += internal::kWarp) {
      const int row = i / columns, column = i % columns;
      rows[row * kPitch<T, columns> + column] = row < count && column < width ? x[row * stride + column] : T(0);
    }
    __syncwarp();
    rows_ = rows;
  }
  __device__ const T* Row(int row) const { return rows_ + row * kPitch<T, columns>; }

 private:
  const T* rows_;
};

// sums [kTileRows, rows] += own b^T, of a matrix b [rows, columns] in shared memory. Both extents are multiples of 32
// with tensor cores, else of 8.
template <class T, int columns, bool tensor_cores, int rows>
__device__ inline void AddRowProducts(const Warp& warp, const OwnRows<T, columns, tensor_cores>& own,
                                      const Stored<T>* b, Tile<Compute<T>, rows>& sums) {
  if constexpr (tensor_cores) {
    constexpr int kPack = static_cast<int>(16 / sizeof(Stored<T>));
    const Stored<T>* const from = b + warp.lane() % 8 * kPitch<T, columns> + warp.lane() / 8 * kPack;
    BELFRY_UNROLL
    for (int j = 0; j < rows / 8; ++j) {
      BELFRY_UNROLL
      for (int step = 0; step < columns / kPack / 2; step += 2) {
        uint32_t m[4];
        internal::LoadMatrices<false>(from + j * 8 * kPitch<T, columns> + step * 2 * kPack, m);
        if constexpr (std::is_same_v<T, float>) {
          for (uint32_t& x : m) x = internal::RoundToTf32(__uint_as_float(x));
        }
        internal::MultiplyFragments<T>(own.Fragment(step), m[0], m[1], sums.at[0] + 2 * j, sums.at[1] + 2 * j);
        internal::MultiplyFragments<T>(own.Fragment(step + 1), m[2], m[3], sums.at[0] + 2 * j, sums.at[1] + 2 * j);
      }
    }
  } else {
    using Pack = internal::Pack<T>;
    for (int k = 0; k < columns; k += Pack::kSize) {
      const Pack a[2] = {internal::PackAt(own.Row(warp.Row(0)) + k), internal::PackAt(own.Row(warp.Row(1)) + k)};
      BELFRY_UNROLL
      for (int j = 0; j < Warp::kColumns<rows>; ++j) {
        const Pack with = internal::PackAt(b + warp.Column(j) * kPitch<T, columns> + k);
        for (int i = 0; i < Warp::kRows; ++i) {
          for (int l = 0; l < Pack::kSize; ++l) sums.at[i][j] += a[i].at[l] * with.at[l];
        }
      }
    }
  }
}

// Shared memory that a warp needs for itself for AddProduct, aligned to 16.
template <class T, int rows, bool tensor_cores>
inline constexpr size_t kProductBytes = tensor_cores ? 0 : sizeof(Stored<T>) * kTileRows* kPitch<T, rows>;

// sums [kTileRows, columns] += a b, of a matrix b [rows, columns] in shared memory, with a rounded as b is. `rows` is a
// multiple of 32 with tensor cores.
template <class T, bool tensor_cores, int rows, int columns>
__device__ inline void AddProduct(const Warp& warp, const Tile<Compute<T>, rows>& a, const Stored<T>* b,
                                  Tile<Compute<T>, columns>& sums, void* memory) {
  if constexpr (tensor_cores && std::is_same_v<T, float>) {
    // The sum's order is free: each lane takes the two columns of `a` that it has.
    const float* const from = b + warp.Column(0) * kPitch<T, columns> + warp.lane() / 4;
    BELFRY_UNROLL
    for (int k = 0; k < rows / 8; ++k) {
      uint32_t own[4];
      BELFRY_UNROLL
      for (int i = 0; i < 4; ++i) own[i] = internal::RoundToTf32(a.at[i % 2][2 * k + i / 2]);
      BELFRY_UNROLL
      for (int j = 0; j < columns / 8; ++j) {
        const float* const at = from + k * 8 * kPitch<T, columns> + j * 8;
        internal::MultiplyFragments<T>(own, internal::RoundToTf32(at[0]), internal::RoundToTf32(at[kPitch<T, columns>]),
                                       sums.at[0] + 2 * j, sums.at[1] + 2 * j);
      }
    }
  } else if constexpr (tensor_cores) {
    const Stored<T>* const from = b + warp.lane() * kPitch<T, columns>;
    BELFRY_UNROLL
    for (int k = 0; k < rows / 8; k += 4) {
      uint32_t own[2][4];
      BELFRY_UNROLL
      for (int i = 0; i < 8; ++i) {
        const float* const at = a.at[i % 2] + 2 * (k + i / 2);
        own[i / 4][i % 4] = internal::Pair<T>(at[0], at[1]);
      }
      BELFRY_UNROLL
      for (int j = 0; j < columns / 8; ++j) {
        uint32_t m[4];
        internal::LoadMatrices<true>(from + k * 8 * kPitch<T, columns> + j * 8, m);
        internal::MultiplyFragments<T>(own[0], m[0], m[1], sums.at[0] + 2 * j, sums.at[1] + 2 * j);
        internal::MultiplyFragments<T>(own[1], m[2], m[3], sums.at[0] + 2 * j, sums.at[1] + 2 * j);
      }
    }
  } else {
    T* const own = static_cast<T*>(memory);
    __syncwarp();
    for (int i = 0; i < Warp::kRows; ++i) {
      BELFRY_UNROLL
      for (int j = 0; j < Warp::kColumns<rows>; ++j) own[warp.Row(i) * kPitch<T, rows> + warp.Column(j)] = a.at[i][j];
    }
    __syncwarp();
    for (int k = 0; k < rows; ++k) {
      const T low = own[warp.Row(0) * kPitch<T, rows> + k], high = own[warp.Row(1) * kPitch<T, rows> + k];
      BELFRY_UNROLL
      for (int j = 0; j < Warp::kColumns<columns>; ++j) {
        const T with = b[k * kPitch<T, columns> + warp.Column(j)];
        sums.at[0][j] += low * with;
        sums.at[1][j] += high * with;
      }
    }
  }
}

namespace internal {
template <class Body>
__global__ void __launch_bounds__(Warp::kThreads) WarpTiles(int64_t blocks, Body body) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Warp warp{static_cast<int>(threadIdx.x)};
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    body(block, warp, static_cast<void*>(shared));
    __syncthreads();
  }
}
}  // namespace internal

// Enqueues body(block, warp, shared) for every block in [0, blocks), in any order, by kTileWarps warps each. `shared`
// as for ForEachBlock.
template <class Body>
absl::Status ForEachWarpBlock(Stream& stream, int64_t blocks, size_t bytes, const Body& body) {
  using namespace internal;  // NOLINT
  if (blocks <= 0) return absl::OkStatus();
  WarpTiles<<<Blocks(blocks), Warp::kThreads, bytes, NativeStream(stream)>>>(blocks, body);
  return Launched();
}

}  // namespace belfry::gpu
