// Rows that the threads of a team divide among their registers.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"

// Unrolls the loop that follows, whose index selects a register and must be known at compile time.
#define BELFRY_UNROLL _Pragma("unroll")

namespace belfry::gpu {

// The threads of the teams of ForEachRow(rows, work).
inline constexpr int64_t kLongestRowOfWarp = 1024;
constexpr int TeamSize(int64_t work) { return work <= kLongestRowOfWarp ? internal::kWarp : internal::kThreads; }

// The number of values that each thread of a team keeps if there are at most n for each thread of TeamSize(work).
constexpr int PerThread(int n) { return n; }

}  // namespace belfry::gpu
