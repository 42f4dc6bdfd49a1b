// Flags for the devices of a program: how many, which cards, and their threads and memory.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "framework/device/device_set.h"

ABSL_DECLARE_FLAG(std::string, devices);
ABSL_DECLARE_FLAG(int, threads_per_device);
ABSL_DECLARE_FLAG(int, virtual_gpus);
ABSL_DECLARE_FLAG(std::string, gpu_memory);
ABSL_DECLARE_FLAG(bool, gpu_memory_growth);
ABSL_DECLARE_FLAG(std::string, visible_gpus);
ABSL_DECLARE_FLAG(bool, gpu_copy_through_host);

namespace belfry::trainers {

DeviceOptions DeviceOptionsFromFlags();

}  // namespace belfry::trainers
