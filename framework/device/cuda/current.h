// The current device of CUDA's runtime, from which libraries take what they make.
#pragma once

#include "absl/status/status.h"
#include "framework/device/device.h"

namespace belfry {

// Makes a CUDA device's card the current one of the calling thread. InvalidArgument for another kind of device.
absl::Status MakeCurrent(const Device& device);

}  // namespace belfry
