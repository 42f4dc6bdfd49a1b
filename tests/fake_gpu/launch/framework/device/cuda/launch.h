// A stand-in for framework/device/cuda/launch.h that runs the bodies of GPU kernels on the thread of a fake GPU's
// stream. Indices come backwards and a team has three threads, so that sanitizers see what a single thread would hide;
// after the first kTeamRows rows it has one thread, to save time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/half.h"
#include "framework/device/device.h"
#include "tests/fake_gpu/fake_gpu.h"

#define BELFRY_GPU

namespace belfry::gpu {

template <class T>
using Stored = T;
template <class T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
using Compute = std::conditional_t<kIsSixteenBit<T>, float, T>;

template <class S>
Compute<S> Widen(S x) {
  return static_cast<Compute<S>>(x);
}
template <class T>
Stored<T> Narrow(Compute<T> x) {
  return static_cast<T>(x);
}

inline void TellHost(uint64_t* to, uint64_t value) {
  std::atomic_ref<uint64_t>(*to).store(value, std::memory_order_relaxed);
}

inline constexpr int kTeam = 3;
inline constexpr int64_t kTeamRows = 24;

struct TeamMemory {
  std::barrier<> barrier{kTeam};
  std::array<std::array<unsigned char, 16>, kTeam> value{};
};

struct Team {
  int rank, size;
  TeamMemory* memory;

  template <class T, class Op>
  T Reduce(T value, Op op) const {
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
    if (size == 1) return value;
    std::memcpy(memory->value[rank].data(), &value, sizeof(T));
    memory->barrier.arrive_and_wait();
    T result, other;
    std::memcpy(&result, memory->value[0].data(), sizeof(T));
    for (int i = 1; i < size; ++i) {
      std::memcpy(&other, memory->value[i].data(), sizeof(T));
      result = op(result, other);
    }
    memory->barrier.arrive_and_wait();
    return result;
  }
  template <class T>
  T Sum(T value) const {
    return Reduce(value, [](T a, T b) { return static_cast<T>(a + b); });
  }
  void Wait() const {
    if (size > 1) memory->barrier.arrive_and_wait();
  }
};

template <class Body>
absl::Status ForEach(Stream& stream, int64_t n, const Body& body) {
  EnqueueOnFakeGpu(stream, [n, body]() mutable {
    for (int64_t i = n; i-- > 0;) body(i);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

template <class Body>
absl::Status ForEachRow(Stream& stream, int64_t rows, int64_t, const Body& body) {
  EnqueueOnFakeGpu(stream, [rows, body]() mutable {
    if (rows <= 0) return absl::OkStatus();
    for (int64_t row = rows; row-- > kTeamRows;) body(row, Team{0, 1, nullptr});
    TeamMemory memory;
    const auto work = [&](int rank) {
      auto own = body;
      for (int64_t row = std::min(rows, kTeamRows); row-- > 0;) {
        own(row, Team{rank, kTeam, &memory});
        memory.barrier.arrive_and_wait();
      }
    };
    std::vector<std::thread> others;
    for (int rank = 1; rank < kTeam; ++rank) others.emplace_back(work, rank);
    work(0);
    for (std::thread& other : others) other.join();
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

inline constexpr size_t kMaxSharedBytes = 44 * 1024;
template <class Body>
absl::Status ForEachBlock(Stream& stream, int64_t blocks, size_t bytes, const Body& body) {
  const auto shared = std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
  return ForEachRow(stream, blocks, 0, [body, shared](int64_t block, const Team& team) {
    if (team.rank == 0) std::memset(shared->data(), 0xa5, shared->size() * sizeof(std::max_align_t));
    team.Wait();
    body(block, team, static_cast<void*>(shared->data()));
  });
}

template <class Body, class Last>
absl::Status ForEachBlockThenLast(Stream& stream, int64_t groups, int64_t parts, size_t bytes, uint32_t* tickets,
                                  const Body& body, const Last& last) {
  // The rows of a group come backwards: its parts, then what comes last.
  return ForEachBlock(stream, groups * (parts + 1), bytes, [=](int64_t row, const Team& team, void* shared) {
    const int64_t group = row / (parts + 1), part = row - group * (parts + 1);
    if (part > 0) {
      body(group, part - 1, team, shared);
      if (team.rank == 0) ++tickets[group];
      return;
    }
    last(group, team, shared);
    if (team.rank == 0) tickets[group] -= static_cast<uint32_t>(parts);
  });
}

inline absl::Status CopyBytes(Stream& stream, void* to, const void* from, size_t bytes) {
  EnqueueOnFakeGpu(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}
inline absl::Status SetBytes(Stream& stream, void* to, unsigned char value, size_t bytes) {
  EnqueueOnFakeGpu(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

}  // namespace belfry::gpu
