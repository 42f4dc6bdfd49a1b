#include "tests/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/fake_cuda/fake_cuda_state.h"

using namespace belfry::fake_cuda;  // NOLINT: CUDA's functions are global

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = world().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = world().count_error == cudaSuccess ? static_cast<int>(world().cards.size()) : 0;
  return Done(world().count_error);
}
cudaError_t cudaSetDevice(int card) {
  if (card < 0 || card >= static_cast<int>(world().cards.size())) return Done(cudaErrorInvalidDevice);
  current = card;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "fake error";
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int card) {
  if (const cudaError_t error = Trouble("cudaGetDeviceProperties", card); error != cudaSuccess) return Done(error);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake H200");
  properties->totalGlobalMem = kMemory;
  properties->major = world().capability / 10;
  properties->minor = world().capability % 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int card) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x5D + card);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Touch();
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  *total = kMemory;
  *free = kMemory - world().cards[current].used;
  return cudaSuccess;
}

// A capture that forbids asking for the state of a stream: its own, or that of the calling thread.
static std::shared_ptr<CUgraph_st> CaptureAround(cudaStream_t stream) {
  return stream->capture != nullptr ? stream->capture : own_capture;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (const cudaError_t error = Trouble("cudaMalloc", current); error != cudaSuccess) return Done(error);
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  CardState& card = world().cards[current];
  if (bytes > kMemory - card.used) return Done(cudaErrorMemoryAllocation);
  const auto address = reinterpret_cast<uintptr_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)) | kTag;
  card.blocks[address] = bytes;
  card.used += bytes;
  *memory = reinterpret_cast<void*>(address);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  Touch();
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  if (memory == nullptr) return Done(Trouble("cudaFree", current));
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  for (CardState& card : world().cards) {
    const auto found = card.blocks.find(reinterpret_cast<uintptr_t>(memory));
    if (found == card.blocks.end()) continue;
    card.used -= found->second;
    card.blocks.erase(found);
    std::free(RealOf(memory));
    return cudaSuccess;
  }
  return Done(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (const cudaError_t error = Trouble("cudaHostAlloc", current); error != cudaSuccess) return Done(error);
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  if (flags != cudaHostAllocPortable) return Done(cudaErrorInvalidValue);
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  world().host_blocks[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  world().host_used += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  Touch();
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  const auto found = world().host_blocks.find(reinterpret_cast<uintptr_t>(memory));
  if (found == world().host_blocks.end()) return Done(cudaErrorInvalidValue);
  world().host_used -= found->second;
  world().host_blocks.erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = kFirstPriority;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  if (const cudaError_t error = Trouble("cudaStreamCreateWithPriority", current); error != cudaSuccess) {
    return Done(error);
  }
  const bool in_range = priority <= 0 && priority >= kFirstPriority;
  if (flags != cudaStreamNonBlocking || !in_range) return Done(cudaErrorInvalidValue);
  *stream = new CUstream_st(current, priority);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().handles;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Touch();
  delete stream;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  --world().handles;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaStreamQuery", stream->card); error != cudaSuccess) return Done(error);
  if (const cudaError_t error = Forbidden(CaptureAround(stream)); error != cudaSuccess) return Done(error);
  return Done(stream->Idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = Forbidden(CaptureAround(stream)); error != cudaSuccess) return Done(error);
  stream->Drain();
  return Done(Trouble("cudaStreamSynchronize", stream->card));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (const cudaError_t error = Trouble("cudaStreamWaitEvent", stream->card); error != cudaSuccess) return Done(error);
  if (flags != 0) return Done(cudaErrorInvalidValue);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (event->captured && event->capture.expired()) return Done(cudaErrorCapturedEvent);
  if (const auto capture = event->capture.lock(); capture != stream->capture) {
    if (stream->capture != nullptr) return Done(cudaErrorStreamCaptureIsolation);
    stream->capture = capture;
    capture->others[stream] = false;
    return cudaSuccess;
  }
  if (stream->capture != nullptr) return cudaSuccess;  // captured work runs in one order anyway
  if (event->mark != nullptr) stream->Enqueue([mark = event->mark] { mark->Await(); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (const cudaError_t error = Trouble("cudaEventCreateWithFlags", current); error != cudaSuccess) return Done(error);
  if (flags != cudaEventDisableTiming && flags != cudaEventDefault) return Done(cudaErrorInvalidValue);
  *event = new CUevent_st{current, flags == cudaEventDefault, nullptr, false, {}};
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().handles;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Touch();
  delete event;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  --world().handles;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaEventRecord", stream->card); error != cudaSuccess) return Done(error);
  if (event->card != stream->card) return Done(cudaErrorInvalidResourceHandle);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().records;
  event->captured = stream->capture != nullptr;
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    const auto other = stream->capture->others.find(stream);
    if (other != stream->capture->others.end()) other->second = true;
    return cudaSuccess;
  }
  const auto mark = std::make_shared<Mark>();
  event->mark = mark;
  stream->Enqueue([mark] { mark->Reach(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = Trouble("cudaEventQuery", event->card); error != cudaSuccess) return Done(error);
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (event->captured) return Done(cudaErrorCapturedEvent);
  return Done(event->mark == nullptr || event->mark->Reached() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = Trouble("cudaEventSynchronize", event->card); error != cudaSuccess) return Done(error);
  if (const cudaError_t error = Forbidden(); error != cudaSuccess) return Done(error);
  std::shared_ptr<Mark> mark;
  {
    const std::lock_guard<std::recursive_mutex> lock(world().mutex);
    if (event->captured) return Done(cudaErrorCapturedEvent);
    mark = event->mark;
  }
  if (mark != nullptr) mark->Await();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t error = Trouble("cudaEventElapsedTime", end->card); error != cudaSuccess) return Done(error);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (start->captured || end->captured) return Done(cudaErrorCapturedEvent);
  const bool timed = start->timed && end->timed && start->mark != nullptr && end->mark != nullptr;
  if (!timed || start->card != end->card) return Done(cudaErrorInvalidResourceHandle);
  if (!start->mark->Reached() || !end->mark->Reached()) return Done(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->when - start->mark->when).count();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const cudaError_t error = Trouble("cudaLaunchHostFunc", stream->card); error != cudaSuccess) return Done(error);
  stream->Enqueue([=] { function(data); });
  return cudaSuccess;
}

// Device memory must belong to the stream's card. Memory that is not page-locked is copied before the call returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaMemcpyAsync", stream->card); error != cudaSuccess) return Done(error);
  const int target = OwnerOf(to, bytes), source = OwnerOf(from, bytes);
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  if (target != (to_host ? -1 : stream->card) || source != (from_host ? -1 : stream->card)) {
    return Done(cudaErrorInvalidValue);
  }
  const bool waits = (to_host && !IsPinned(to, bytes)) || (from_host && !IsPinned(from, bytes));
  if (waits && stream->capture != nullptr) return Done(Forbidden(stream->capture));
  stream->Enqueue([=] { std::memcpy(RealOf(to), RealOf(from), bytes); });
  if (waits) stream->Drain();
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_card, const void* from, int from_card, size_t bytes,
                                cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaMemcpyPeerAsync", stream->card); error != cudaSuccess) return Done(error);
  if (OwnerOf(to, bytes) != to_card || OwnerOf(from, bytes) != from_card) return Done(cudaErrorInvalidValue);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  const int other = stream->card == to_card ? from_card : to_card;
  if (!world().cards[stream->card].peers.contains(other)) return Done(cudaErrorPeerAccessNotEnabled);
  ++world().peer_copies;
  const bool corrupt = world().path == PeerPath::kCorrupts;
  stream->Enqueue([=] {
    std::memcpy(RealOf(to), RealOf(from), bytes);
    if (corrupt) RealOf(to)[bytes / 2] ^= std::byte{1};
  });
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = world().path == PeerPath::kNone ? 0 : 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  if (flags != 0 || world().path == PeerPath::kNone || peer == current) return Done(cudaErrorInvalidDevice);
  const bool added = world().cards[current].peers.insert(peer).second;
  return Done(added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return Done(world().cards[current].peers.erase(peer) > 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

}  // extern "C"

namespace belfry::fake_cuda {

void SetCards(int count) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  world().cards.assign(static_cast<size_t>(count), CardState());
  world().count_error = cudaSuccess;
  world().driver = CUDART_VERSION;
  world().capability = kCapability;
  world().path = PeerPath::kGood;
  world().peer_copies = 0;
  world().failures.clear();
  last_error = cudaSuccess;
  current = 0;
}
bool HasContext(int card) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().cards[card].context;
}
void SetCountError(cudaError_t error, int driver_version) {
  world().count_error = error;
  world().driver = driver_version;
}
void SetCapability(int capability) { world().capability = capability; }
void SetPeerPath(PeerPath path) { world().path = path; }
int PeerCopies() {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().peer_copies;
}
void Break(int card, cudaError_t error) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  world().cards[card].broken = error;
}
void FailNext(const char* call, cudaError_t error) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  world().failures[call] = error;
}
size_t DeviceBytes(int card) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().cards[card].used;
}
size_t HostBytes() {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().host_used;
}
int Handles() {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().handles;
}
int Records() {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  return world().records;
}
cudaError_t Launch(cudaStream_t stream, void (*kernel)(void*), void* data) {
  if (last_error != cudaSuccess) return std::exchange(last_error, cudaSuccess);
  if (stream->card != current) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = Trouble("launch", stream->card); error != cudaSuccess) return error;
  stream->Enqueue([=] { kernel(data); });
  return cudaSuccess;
}
int Priority(cudaStream_t stream) { return stream->priority; }
void* Real(void* memory) { return RealOf(memory); }

}  // namespace belfry::fake_cuda
