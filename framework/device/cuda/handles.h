// Owning handles of CUDA runtime objects.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/device/cuda/card.h"

namespace belfry {

// A thread's first CUDA call, even one that destroys something, creates a context on its current device. So every
// handle makes its own card current before destroying.
template <auto kDestroy>
struct Destroy {
  int card = 0;
  template <class T>
  void operator()(T* owned) const {
    cudaSetDevice(card);
    if (kDestroy(owned) != cudaSuccess) cudaGetLastError();
  }
};
using StreamHandle = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using EventHandle = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using DeviceHandle = std::unique_ptr<void, Destroy<cudaFree>>;
using PinnedHandle = std::unique_ptr<void, Destroy<cudaFreeHost>>;

// Waiting blocks of kernels of a stream that is kFirst start before other streams'.
enum class StreamPriority { kLast, kFirst };

// A stream that does not synchronise with the legacy default stream.
inline absl::StatusOr<StreamHandle> MakeStream(const Card& card, StreamPriority priority = StreamPriority::kLast) {
  cudaStream_t stream = nullptr;
  int last = 0, first = 0;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaDeviceGetStreamPriorityRange(&last, &first), "cudaDeviceGetStreamPriorityRange"));
  RETURN_IF_ERROR(card.Check(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority == StreamPriority::kFirst ? first : last),
      "cudaStreamCreateWithPriority"));
  return StreamHandle(stream, {card.ordinal()});
}

// An event to be recorded on streams of the same card only. Without timing, the default, it is cheaper.
inline absl::StatusOr<EventHandle> MakeEvent(const Card& card, unsigned int flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags"));
  return EventHandle(event, {card.ordinal()});
}

inline absl::StatusOr<DeviceHandle> MakeDeviceMemory(const Card& card, size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaMalloc(&memory, bytes), "cudaMalloc"));
  return DeviceHandle(memory, {card.ordinal()});
}

// Page-locked memory, for copies to and from every card; aligned to a page.
inline absl::StatusOr<PinnedHandle> MakePinnedMemory(const Card& card, size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc"));
  return PinnedHandle(memory, {card.ordinal()});
}

}  // namespace belfry
