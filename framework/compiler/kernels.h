// The kernels of a program's nodes.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/program.h"
#include "framework/device/device_set.h"
#include "framework/graph/kernel.h"

namespace belfry {

// The kernel of each node, made with the thread count of its device; empty for nodes without one. A kernel is run by
// one thread at a time. Errors: what a factory reports, with the node, its device and the user's line; Unimplemented
// where an op has no kernel for the device and dtype. Kernels of a described GPU (device/described_gpu.h) fail when
// run.
absl::StatusOr<std::vector<Kernel>> MakeKernels(const Program& program, const DeviceSet& devices,
                                                const OpRegistry& registry);

// Drops the elements of constants of which all readers have a form of their own (program.prepared). Kernels that are
// made later have the same forms.
void DropPreparedConstants(Program& program);

}  // namespace belfry
