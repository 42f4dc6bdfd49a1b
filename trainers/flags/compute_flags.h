// Flags for how devices compute: cores and kernels.
#pragma once

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "trainers/flags/device_flags.h"

namespace belfry::trainers {

// Opens --devices for computing as the flags say. InvalidArgument for a GPU flag without GPUs, and for a CPU flag
// without CPU towers. `options` are those of DeviceOptionsFromFlags, perhaps changed.
absl::StatusOr<DeviceSet> OpenDevices(DeviceOptions options = DeviceOptionsFromFlags());

}  // namespace belfry::trainers
