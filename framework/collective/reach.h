// Access between GPUs' memory in kernels.
#pragma once

#include "framework/device/device.h"

namespace belfry {

// True if kernels on `from` may read and write memory of `to`. REQUIRES: both are GPUs of one back-end.
bool Reaches(const Device& from, const Device& to);

}  // namespace belfry
