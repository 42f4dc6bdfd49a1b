// GPUs described without a card: a session with them compiles plans and places variables, and runs nothing.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device_set.h"

namespace belfry {

struct GpuDescription {
  std::string model;        // "NVIDIA H100 SXM5 80GB"
  size_t memory_bytes = 0;  // that devices may use
};

// Devices for "gpu:N": one CPU device and N cards of the description. Kernels for them are looked up in the CUDA module
// as for real ones, but not made (compiler/kernels.h), so that workspaces count as empty. Their memory has addresses
// that nothing may touch; whatever would use a stream fails with FailedPrecondition. InvalidArgument: another spec.
absl::StatusOr<DeviceSet> OpenDescribedGpus(absl::string_view spec, const GpuDescription& description,
                                            const DeviceOptions& options = {});

// The description of such a device; null for others.
const GpuDescription* DescriptionOf(const Device& device);

}  // namespace belfry
