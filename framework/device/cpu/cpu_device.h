// Logical CPU devices.
#pragma once

#include <memory>
#include <vector>

#include "framework/device/device_set.h"

namespace belfry {

// Opens `count` devices /cpu:0 ... according to the CPU options.
std::vector<std::unique_ptr<Device>> OpenCpuDevices(int count, const DeviceOptions& options = {});

}  // namespace belfry
