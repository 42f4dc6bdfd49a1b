// Recomputation chosen for a limit of memory.
#pragma once

#include <cstddef>

#include "framework/compiler/plan.h"
#include "framework/device/device_set.h"

namespace belfry {

// Makes a plan that needs more than `limit` bytes on a device compute results again instead of keeping them, and plans
// its streams and memory anew, so that its arena, with the copies of constants and large feeds on a GPU, fits. Of the
// plans that it tries, it takes the first that fits, else the one that needs least. The results have the same bits.
// REQUIRES: the plan is complete except for variables' uses. Make kernels again if plan.recomputation.nodes > 0.
void FitMemory(Plan& plan, const DeviceSet& devices, size_t limit);

// Makes `device` compute results of plan.program again, so that the step uses about `budget` bytes of the device at any
// moment where that is possible (recompute_within.cc). Adds to program, workspace_bytes, in_place and recomputation;
// streams and memory have to be planned anew. Returns the most bytes that it expects to be in use.
size_t RecomputeWithin(Plan& plan, int device, size_t budget);

// The estimated time of a node, in bytes that the device could move meanwhile.
double EstimatedTime(const Program& program, const ProgramNode& node);

}  // namespace belfry
