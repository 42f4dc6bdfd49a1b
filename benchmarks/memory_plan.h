// Quality of a memory plan.
#pragma once

#include <cstddef>

#include "framework/compiler/plan.h"

namespace belfry::benchmarks {

// The most bytes of `device`'s arena in use at one moment: a lower bound for any arena with the same order of nodes.
size_t LeastArena(const MemoryPlan& memory, int device);

}  // namespace belfry::benchmarks
