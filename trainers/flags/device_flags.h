// Flags for the devices of a program: how many, and how they use threads, memory and kernels.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

ABSL_DECLARE_FLAG(std::string, devices);
ABSL_DECLARE_FLAG(int, threads_per_device);
ABSL_DECLARE_FLAG(int, virtual_gpus);
ABSL_DECLARE_FLAG(std::string, gpu_memory);
ABSL_DECLARE_FLAG(bool, gpu_memory_growth);
ABSL_DECLARE_FLAG(std::string, visible_gpus);
ABSL_DECLARE_FLAG(bool, gpu_copy_through_host);

namespace belfry::trainers {

DeviceOptions DeviceOptionsFromFlags();

// Opens --devices. InvalidArgument for a GPU flag without GPUs, and for a CPU flag without CPU towers. `options` are
// those of DeviceOptionsFromFlags, perhaps changed.
absl::StatusOr<DeviceSet> OpenDevices(const DeviceOptions& options = DeviceOptionsFromFlags());

}  // namespace belfry::trainers
