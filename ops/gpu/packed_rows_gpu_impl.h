// Rows of adjacent elements that a team reads once, 16 bytes at a time, and keeps in registers. For .cu files.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/device/cuda/registers.h"
#include "ops/gpu/packs_gpu_impl.h"

namespace belfry::ops {

// The elements of a row that one thread of a team keeps: up to `packs` packs, if the team has gpu::TeamSize(n) threads.
template <class T, int packs>
class KeptRow {
 public:
  static constexpr int kLanes = kWideLanes<T>;

  // n: a multiple of kLanes.
  template <class Team>
  BELFRY_GPU KeptRow(const gpu::Stored<T>* row, int n, const Team& team)
      : first_(team.rank * kLanes), step_(team.size * kLanes), n_(n) {
    BELFRY_UNROLL
    for (int k = 0; k < kPacks; ++k) {
      if (At(k) < n_) packs_[k] = PackAt<T, kLanes>(row + At(k));
    }
  }
  // Calls f(x) for each element, widened.
  template <class F>
  BELFRY_GPU void ForEach(const F& f) const {
    ForEachPack([&f](const WidePack<T>& pack, int) {
      BELFRY_UNROLL
      for (int j = 0; j < kLanes; ++j) f(gpu::Widen(pack.at[j]));
    });
  }
  // Calls f(pack, i), where i is the place in the row of its first element.
  template <class F>
  BELFRY_GPU void ForEachPack(const F& f) const {
    BELFRY_UNROLL
    for (int k = 0; k < kPacks; ++k) {
      if (At(k) < n_) f(packs_[k], At(k));
    }
  }
  // Calls f(pack, of_other, i) with the packs of two rows.
  template <class F>
  BELFRY_GPU void ForEachPackWith(const KeptRow& other, const F& f) const {
    BELFRY_UNROLL
    for (int k = 0; k < kPacks; ++k) {
      if (At(k) < n_) f(packs_[k], other.packs_[k], At(k));
    }
  }

 private:
  static constexpr int kPacks = gpu::PerThread(packs);
  BELFRY_GPU int At(int k) const { return first_ + k * step_; }

  WidePack<T> packs_[kPacks];
  int first_, step_, n_;
};

// The packs that a thread would keep of rows of n elements; 0 if they are short, too long, or no whole packs.
template <class T>
int PacksToKeep(int64_t n) {
  constexpr int64_t kShortest = 32, kLongest = 8192;
  if (n < kShortest || n > kLongest || !AreWholePacks<T>(n)) return 0;
  const int64_t all = n / kWideLanes<T>, threads = gpu::TeamSize(n);
  return static_cast<int>((all + threads - 1) / threads);
}

// Calls run(std::integral_constant<int, packs>()) with enough packs for PacksToKeep<T>() = `needed`, or otherwise() if
// that is 0.
template <class T, class Run, class Otherwise>
absl::Status WithPacks(int needed, const Run& run, const Otherwise& otherwise) {
  if constexpr (1 < kWideLanes<T>) {
    constexpr int kFew = 8 / kWideLanes<T>, kMost = 32 / kWideLanes<T>;
    if (needed > kFew) return run(std::integral_constant<int, kMost>());
    if (needed > 0) return run(std::integral_constant<int, kFew>());
  }
  return otherwise();
}

}  // namespace belfry::ops
