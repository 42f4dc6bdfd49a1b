// A stand-in for framework/device/cuda/warp_tiles.h: a warp is one thread, which holds whole rows, so that a block is
// kTileWarps threads.
#pragma once

#include <array>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "framework/device/cuda/launch.h"
#include "framework/device/cuda/registers.h"

namespace belfry::gpu {

inline constexpr int kTileRows = 16, kTileWarps = 4;

template <class T, int columns>
inline constexpr int kPitch = columns + static_cast<int>(16 / sizeof(T));

struct Warp {
  static constexpr int kRows = kTileRows;
  template <int columns>
  static constexpr int kColumns = columns;
  static constexpr int kThreads = kTileWarps;

  int rank;
  std::barrier<>* barrier;

  int index() const { return rank; }
  int lane() const { return 0; }
  int Row(int i) const { return i; }
  int Column(int j) const { return j; }
  static constexpr int kRowLanes = 1;
  int RowLane() const { return 0; }
  bool Leads() const { return true; }
  template <class C>
  static C RowSum(C x) {
    return x;
  }
  template <class C>
  static C RowMax(C x) {
    return x;
  }
  void WaitForBlock() const { barrier->arrive_and_wait(); }
};

template <class C>
C Exp2(C x) {
  return std::exp2(x);
}

inline void CopySixteenBytes(void* to, const void* from, bool read) {
  read ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
}
inline void WaitForCopies() {}

template <class C, int columns>
struct Tile {
  std::array<std::array<C, columns>, kTileRows> at;
};

template <class T, int columns, bool tensor_cores>
class OwnRows {
 public:
  static constexpr size_t kBytes = 0;

  void Load(const Warp&, const T* x, int64_t stride, int count, int width, void*) {
    for (int i = 0; i < kTileRows; ++i) {
      for (int j = 0; j < columns; ++j) rows_[i][j] = i < count && j < width ? Widen(x[i * stride + j]) : Compute<T>(0);
    }
  }
  const Compute<T>* Row(int row) const { return rows_[row].data(); }

 private:
  std::array<std::array<Compute<T>, columns>, kTileRows> rows_;
};

template <class T, int columns, bool tensor_cores, int rows>
void AddRowProducts(const Warp&, const OwnRows<T, columns, tensor_cores>& own, const T* b,
                    Tile<Compute<T>, rows>& sums) {
  for (int j = 0; j < rows; ++j) {
    for (int k = 0; k < columns; ++k) {
      const Compute<T> with = Widen(b[j * kPitch<T, columns> + k]);
      for (int i = 0; i < kTileRows; ++i) sums.at[i][j] += own.Row(i)[k] * with;
    }
  }
}

template <class T, int rows, bool tensor_cores>
inline constexpr size_t kProductBytes = 0;

template <class T, bool tensor_cores, int rows, int columns>
void AddProduct(const Warp&, const Tile<Compute<T>, rows>& a, const T* b, Tile<Compute<T>, columns>& sums, void*) {
  std::array<Compute<T>, kTileRows> own;
  for (int k = 0; k < rows; ++k) {
    for (int i = 0; i < kTileRows; ++i) own[i] = Widen(Narrow<T>(a.at[i][k]));
    for (int j = 0; j < columns; ++j) {
      const Compute<T> with = Widen(b[k * kPitch<T, columns> + j]);
      for (int i = 0; i < kTileRows; ++i) sums.at[i][j] += own[i] * with;
    }
  }
}

template <class Body>
absl::Status ForEachWarpBlock(Stream& stream, int64_t blocks, size_t bytes, const Body& body) {
  EnqueueOnFakeGpu(stream, [=] {
    std::barrier<> barrier(kTileWarps);
    std::vector<std::max_align_t> shared(bytes / sizeof(std::max_align_t) + 1);
    const auto work = [&](int rank) {
      for (int64_t block = blocks; block-- > 0;) {
        barrier.arrive_and_wait();
        if (rank == 0) std::memset(shared.data(), 0xa5, shared.size() * sizeof(std::max_align_t));
        barrier.arrive_and_wait();
        body(block, Warp{rank, &barrier}, static_cast<void*>(shared.data()));
      }
    };
    std::vector<std::thread> others;
    for (int rank = 1; rank < kTileWarps; ++rank) others.emplace_back(work, rank);
    work(0);
    for (std::thread& other : others) other.join();
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

}  // namespace belfry::gpu
