// The devices of the CUDA module.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// The module's table for this layer, part "device".
struct GpuDevices {
  absl::StatusOr<std::vector<std::unique_ptr<Device>>> (*open)(int count, const DeviceOptions& options);
  absl::StatusOr<int> (*count)(const DeviceOptions& options);
};

}  // namespace belfry
