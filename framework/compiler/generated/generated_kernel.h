// Kernels that are generated and compiled for a plan.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/program.h"
#include "framework/device/device.h"

namespace belfry {

// The kernel of an ElementwiseOp() or a JoinedOp() node on a device that compiles kernels (Device::CompilesKernels).
// The bits are those of the members one by one. Errors: those of Device::CompileKernel.
absl::StatusOr<Kernel> MakeGeneratedKernel(const Program& program, const ProgramNode& node, Device& device,
                                           absl::string_view declarations);

}  // namespace belfry
