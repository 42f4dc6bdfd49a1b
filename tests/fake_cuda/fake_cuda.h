// CUDA's runtime on host threads: what the CUDA back-end calls of it, as far as it calls it. A program that links this
// has the cards that a test puts in. Stricter than CUDA where CUDA's documents ask for what it does not check.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace belfry::fake_cuda {

// Puts in `count` cards of 1 GiB each and forgets everything else. REQUIRES: nothing is in use.
void SetCards(int count);
// Which call of cudaGetDeviceCount fails with what; cudaSuccess: none.
void SetCountError(cudaError_t error, int driver_version);

enum class PeerPath { kGood, kNone, kCorrupts };
// Between all cards.
void SetPeerPath(PeerPath path);
// Copies from card to card that did not go through the host.
int PeerCopies();

// What cudaStreamQuery and the like say of a card from now on, as after an illegal address.
void Break(int card, cudaError_t error);
// The next call of this name fails with it.
void FailNext(const char* call, cudaError_t error);

// Bytes allocated on a card, and page-locked bytes of the host.
size_t DeviceBytes(int card);
size_t HostBytes();
// Whether anything was done on a card, which takes memory of it.
bool HasContext(int card);
// Streams and events that were made and not destroyed.
int Handles();

// What a kernel launch does: an error unless the stream is of the current device, and no error is pending.
cudaError_t Launch(cudaStream_t stream, void (*kernel)(void*), void* data);
// The host's address of a card's memory, for kernels.
void* Real(void* memory);

}  // namespace belfry::fake_cuda
