// The part of CUDA's runtime that the CUDA back-end calls, on host threads. A program that links it has the cards that
// a test puts in. It is stricter than CUDA where CUDA's documents require something that CUDA does not check; to a
// thread that captures it refuses all calls that may be unsafe, also those for other streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace belfry::fake_cuda {

// Ten times the compute capability of cards, one that this build has code for.
constexpr int kCapability = BELFRY_FAKE_CAPABILITY;
// Sets that of all cards until SetCards.
void SetCapability(int capability);

// Puts in `count` cards of 1 GiB each and forgets everything else. REQUIRES: nothing is in use.
void SetCards(int count);
// Sets the error of cudaGetDeviceCount (cudaSuccess for none) and the driver's version.
void SetCountError(cudaError_t error, int driver_version);

enum class PeerPath { kGood, kNone, kCorrupts };
// Sets the path between all pairs of cards.
void SetPeerPath(PeerPath path);
// Number of copies from card to card that did not go through the host.
int PeerCopies();

// Makes cudaStreamQuery and similar calls report `error` for a card from now on, as after an illegal address.
void Break(int card, cudaError_t error);
// Makes the next call of this name fail with `error`.
void FailNext(const char* call, cudaError_t error);

// Bytes allocated on a card, and page-locked bytes of the host.
size_t DeviceBytes(int card);
size_t HostBytes();
// True if anything was done on a card, which takes some of its memory.
bool HasContext(int card);
// Number of streams and events that were created and not destroyed.
int Handles();

// Number of calls of cudaEventRecord.
int Records();

// Launches a kernel. It is an error unless the stream belongs to the current device and no error is pending.
cudaError_t Launch(cudaStream_t stream, void (*kernel)(void*), void* data);
// The priority that a stream was made with, from 0, the last, to kFirstPriority.
constexpr int kFirstPriority = -5;
int Priority(cudaStream_t stream);
// The host address of a card's memory, for kernels.
void* Real(void* memory);

}  // namespace belfry::fake_cuda
