// What kernels and libraries need to know of CUDA's streams and devices.
#pragma once

struct CUstream_st;

namespace belfry {

class Device;
class Stream;

// The cudaStream_t of a stream of a CUDA device, which becomes the current device of the calling thread: kernels,
// library handles and graph launches need both. Device::physical_id is CUDA's number of the device.
CUstream_st* NativeStream(Stream& stream);

// True if kernels on one of two CUDA devices may read and write memory of the other: they share a card, or peer access
// was tried and works in both directions.
bool CanReach(const Device& a, const Device& b);

}  // namespace belfry
