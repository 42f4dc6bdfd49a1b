// The native side of CUDA streams and devices, for kernels and libraries.
#pragma once

struct CUstream_st;

namespace belfry {

class Device;
class Stream;

// The cudaStream_t of a CUDA device's stream. Also makes that device current for the calling thread: kernels, library
// handles and graph launches need both. Device::physical_id is the device's CUDA ordinal.
CUstream_st* NativeStream(Stream& stream);

// True if kernels on one of two CUDA devices may access the other's memory: they share a card, or peer access was tried
// and works in both directions.
bool CanReach(const Device& a, const Device& b);

}  // namespace belfry
