// Flags for how devices compute, and for how a session places, compiles, runs and checks its steps.
#pragma once

#include <optional>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "trainers/flags/device_flags.h"
#include "trainers/prediction/gpu_card.h"
#include "trainers/prediction/trace_times.h"

ABSL_DECLARE_FLAG(double, step_timeout);

namespace belfry::trainers {

// The card of --as; none without the flag. Errors: those of GpuCard::Find.
absl::StatusOr<std::optional<GpuCard>> CardFromFlags();

// The times of --as_trace; none without the flag. Errors: those of ReadKernelTimes; InvalidArgument without --as.
absl::StatusOr<KernelTimes> MeasuredTimesFromFlags();

// Opens --devices for computing as the flags say, or describes them by --as. InvalidArgument for a GPU flag without
// GPUs, and for a CPU flag without CPU towers. `options` are those of DeviceOptionsFromFlags, perhaps changed.
absl::StatusOr<DeviceSet> OpenDevices(DeviceOptions options = DeviceOptionsFromFlags());

// Options for a session on `devices`, which OpenDevices has opened. Creates the directory of --dump_plan. Errors name
// the flag: InvalidArgument for a wrong value, or for --cuda_graphs without GPUs; Unavailable for the directory.
absl::StatusOr<SessionOptions> SessionOptionsFromFlags(const DeviceSet& devices);

}  // namespace belfry::trainers
