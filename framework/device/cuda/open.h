// Opening CUDA devices: the module's part of OpenGpuDevices and CountGpuDevices.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(int count, const DeviceOptions& options);
absl::StatusOr<int> CountCudaDevices(const DeviceOptions& options);

}  // namespace belfry
