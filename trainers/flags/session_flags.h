// Flags for how a session places, compiles, runs and checks its steps.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"

ABSL_DECLARE_FLAG(bool, log_device_placement);
ABSL_DECLARE_FLAG(bool, allow_soft_placement);
ABSL_DECLARE_FLAG(std::string, dump_plan);
ABSL_DECLARE_FLAG(double, step_timeout);

namespace belfry::trainers {

// Options for a session on `devices`, which OpenDevices has opened. Creates the directory of --dump_plan. Errors name
// the flag: InvalidArgument for a wrong value, or for --cuda_graphs without GPUs; Unavailable for the directory.
absl::StatusOr<SessionOptions> SessionOptionsFromFlags(const DeviceSet& devices);

}  // namespace belfry::trainers
