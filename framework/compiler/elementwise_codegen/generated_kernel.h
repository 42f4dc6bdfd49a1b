// Kernels that are generated and compiled for a plan.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"
#include "framework/device/device_set.h"

namespace belfry {

// The kernel of an ElementwiseOp() or a JoinedOp() node on a device that compiles kernels (Device::CompilesKernels).
// The bits are those of the members one by one. Errors: those of Device::CompileKernel.
absl::StatusOr<Kernel> MakeGeneratedKernel(const Program& program, const ProgramNode& node, Device& device,
                                           absl::string_view declarations);

// Has the devices compile the kernels of all such nodes, several at a time, one on each core, so that
// MakeGeneratedKernel finds them. Errors are left to it.
void CompileGeneratedKernels(const Program& program, const DeviceSet& devices, absl::string_view declarations);

// True for a node whose kernel is generated.
bool IsGenerated(const ProgramNode& node, const Device& device);

}  // namespace belfry
