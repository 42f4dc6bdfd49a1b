// Packs of 16 bytes of adjacent elements, which a thread reads and writes at once. For .cu files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "framework/device/cuda/launch.h"
#include "framework/device/cuda/registers.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {

template <class T, int lanes>
using PackOf = GpuPack<gpu::Stored<T>, lanes>;
// The elements of a pack; float64 is taken one by one.
template <class T>
inline constexpr int kWideLanes = sizeof(gpu::Stored<T>) > 4 ? 1
                                                             : kWidestUnit / static_cast<int>(sizeof(gpu::Stored<T>));
template <class T>
using WidePack = PackOf<T, kWideLanes<T>>;

// Elements from `at` on, which is aligned to the size of them all.
template <class T, int lanes>
BELFRY_GPU PackOf<T, lanes> PackAt(const gpu::Stored<T>* at) {
  return *reinterpret_cast<const PackOf<T, lanes>*>(at);
}
template <class T, int lanes>
BELFRY_GPU void StorePack(gpu::Stored<T>* at, const PackOf<T, lanes>& pack) {
  *reinterpret_cast<PackOf<T, lanes>*>(at) = pack;
}
// The same of the first `lanes` of n elements, at an address that packs may have, or not; the others are zero, and are
// not written.
template <class T, int n>
BELFRY_GPU PackOf<T, n> LoadLanes(const gpu::Stored<T>* at, int lanes, bool aligned) {
  if (aligned && lanes == n) return PackAt<T, n>(at);
  PackOf<T, n> pack = {};
  BELFRY_UNROLL
  for (int j = 0; j < n; ++j) {
    if (j < lanes) pack.at[j] = at[j];
  }
  return pack;
}
template <class T, int n>
BELFRY_GPU void StoreLanes(gpu::Stored<T>* at, const PackOf<T, n>& pack, int lanes, bool aligned) {
  if (aligned && lanes == n) {
    StorePack<T, n>(at, pack);
    return;
  }
  BELFRY_UNROLL
  for (int j = 0; j < n; ++j) {
    if (j < lanes) at[j] = pack.at[j];
  }
}

// True if n elements are packs without a rest, where there are packs.
template <class T>
constexpr bool AreWholePacks(int64_t n) {
  return kWideLanes<T> > 1 && n % kWideLanes<T> == 0;
}
// True if packs may begin at all of the addresses.
inline bool AreAligned(std::initializer_list<const void*> addresses) {
  uintptr_t bits = 0;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return bits % kWidestUnit == 0;
}

// Calls run(std::integral_constant<int, lanes>()) with the elements that a thread takes together: a pack's, or one.
template <class T, class Run>
absl::Status WithLanes(bool packs, const Run& run) {
  if constexpr (1 < kWideLanes<T>) {
    if (packs) return run(std::integral_constant<int, kWideLanes<T>>());
  }
  return run(std::integral_constant<int, 1>());
}

// Calls f(k, std::integral_constant<int, lanes>()) for the thread's elements [k, k + lanes) of the row x of n elements:
// packs from the first aligned address on, and single elements before and behind. Without `packs` all are single.
template <class T, class Team, class F>
BELFRY_GPU void ForEachLanesOfRow(const gpu::Stored<T>* x, int64_t n, bool packs, const Team& team, const F& f) {
  using One = std::integral_constant<int, 1>;
  constexpr int kLanes = kWideLanes<T>;
  int64_t next = 0;
  if (kLanes > 1 && packs) {
    const auto beyond = static_cast<int>(reinterpret_cast<uintptr_t>(x) / sizeof(gpu::Stored<T>) % kLanes);
    const int64_t head = beyond == 0 ? 0 : n < kLanes - beyond ? n : kLanes - beyond;
    for (int64_t k = team.rank; k < head; k += team.size) f(k, One());
    next = head + (n - head) / kLanes * kLanes;
    for (int64_t k = head + int64_t{team.rank} * kLanes; k < next; k += int64_t{team.size} * kLanes) {
      f(k, std::integral_constant<int, kLanes>());
    }
  }
  for (int64_t k = next + team.rank; k < n; k += team.size) f(k, One());
}

// A value for each lane.
template <class V, int lanes>
struct PerLane {
  V of[lanes] = {};
  friend constexpr PerLane operator+(PerLane a, const PerLane& b) {
    for (int j = 0; j < lanes; ++j) a.of[j] = a.of[j] + b.of[j];
    return a;
  }
};

}  // namespace belfry::ops
