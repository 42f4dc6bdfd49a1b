// Which GPUs read and write each other's memory in their kernels.
#pragma once

#include "framework/device/device.h"

namespace belfry {

// REQUIRES: both are GPUs of one back-end.
bool Reaches(const Device& from, const Device& to);

}  // namespace belfry
