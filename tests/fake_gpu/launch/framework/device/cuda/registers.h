// A stand-in for framework/device/cuda/registers.h.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"

#define BELFRY_UNROLL

namespace belfry::gpu {

inline constexpr int64_t kLongestRowOfWarp = 1024;
constexpr int TeamSize(int64_t work) { return work <= kLongestRowOfWarp ? 32 : 256; }

// A team of one thread keeps all.
constexpr int PerThread(int n) { return n * 256; }

}  // namespace belfry::gpu
