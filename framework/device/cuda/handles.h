// Owners of what CUDA's runtime hands out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/device/cuda/card.h"

namespace belfry {

// Whatever a thread calls first makes a context on its current device, if only to destroy something: so each owner
// makes its own card the current one before.
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

// Does not wait for the legacy default stream.
inline absl::StatusOr<StreamHandle> MakeStream(const Card& card) {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
  return StreamHandle(stream, {card.ordinal()});
}

// Recorded only on streams of the same card. One that knows no time costs less.
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

// Page-locked for every card; aligned to a page.
inline absl::StatusOr<PinnedHandle> MakePinnedMemory(const Card& card, size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_ERROR(card.MakeCurrent());
  RETURN_IF_ERROR(card.Check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc"));
  return PinnedHandle(memory, {card.ordinal()});
}

}  // namespace belfry
