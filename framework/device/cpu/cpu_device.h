// Logical CPU devices.
#pragma once

#include <memory>
#include <vector>

#include "framework/device/device_set.h"

namespace belfry {

// `count` devices /cpu:0 ... as the options for CPUs say.
std::vector<std::unique_ptr<Device>> OpenCpuDevices(int count, const DeviceOptions& options = {});

}  // namespace belfry
