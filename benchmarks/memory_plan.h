// How good a memory plan is.
#pragma once

#include <cstddef>

#include "framework/compiler/plan.h"

namespace belfry::benchmarks {

// The most bytes of `device`'s arena that are in use at one moment: no arena for the same order of nodes is smaller.
size_t LeastArena(const MemoryPlan& memory, int device);

}  // namespace belfry::benchmarks
