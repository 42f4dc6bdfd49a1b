// The CUDA runtime's current device, on which libraries create their objects.
#pragma once

#include "absl/status/status.h"
#include "framework/device/device.h"

namespace belfry {

// Makes a CUDA device's card the calling thread's current device. InvalidArgument for other kinds of device.
absl::Status MakeCurrent(const Device& device);

}  // namespace belfry
