// Logical CPU devices.
#pragma once

#include <memory>
#include <vector>

#include "framework/device/device.h"

namespace belfry {

// `count` devices /cpu:0 ... that share the machine's cores evenly (at least one thread each; `threads_each` > 0 sets
// the number instead).
std::vector<std::unique_ptr<Device>> OpenCpuDevices(int count, int threads_each = 0, MathMode math = {});

}  // namespace belfry
