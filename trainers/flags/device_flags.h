// Flags for the devices of a program: how many, which cards, and their threads and memory.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "framework/device/device_set.h"

ABSL_DECLARE_FLAG(std::string, devices);

namespace belfry::trainers {

DeviceOptions DeviceOptionsFromFlags();

}  // namespace belfry::trainers
