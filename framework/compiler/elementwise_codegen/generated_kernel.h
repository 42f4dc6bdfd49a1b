// Kernels that are generated and compiled for a plan.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"
#include "framework/device/device_set.h"

namespace belfry {

// Kernels of an op with element code, one for each dtype that it allows, for devices of a type that compile kernels
// (Device::CompilesKernels): each is that of a chain of one node. `op` and `declarations` must outlive them.
std::vector<KernelDef> GeneratedKernels(const OpDef& op, absl::string_view device_type,
                                        const std::string& declarations);
// True for one of these.
bool IsGenerated(const KernelDef& kernel);

// The kernel of an ElementwiseOp() or a JoinedOp() node, or of a node with a kernel of the above, on a device that
// compiles kernels. The bits are those of the members one by one. Errors: those of Device::CompileKernel.
absl::StatusOr<Kernel> MakeGeneratedKernel(const Program& program, const ProgramNode& node, Device& device,
                                           absl::string_view declarations);

// Has the devices compile the kernels of all such nodes, several at a time, one on each core, so that
// MakeGeneratedKernel and KernelDef::make find them. Errors are left to these.
void CompileGeneratedKernels(const Program& program, const DeviceSet& devices, absl::string_view declarations);

// True for a node that goes through memory once for several nodes and whose kernel is generated.
bool IsGeneratedChain(const ProgramNode& node, const Device& device);

}  // namespace belfry
