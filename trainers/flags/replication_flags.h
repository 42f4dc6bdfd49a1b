// Flags for how towers share variables and average gradients (models/towers/replicate_towers.h).
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"

ABSL_DECLARE_FLAG(std::string, variable_update);
ABSL_DECLARE_FLAG(std::string, averager);
ABSL_DECLARE_FLAG(bool, shard_optimizer);

namespace belfry::trainers {

// Opens --devices in a process of `world`. Processes of one machine that may run on the same cores share them by
// number, and get cores of their own. Errors: those of OpenDevices and of World::AllGather.
absl::StatusOr<DeviceSet> OpenDevices(World& world);

// Options from --variable_update and --shard_optimizer for a process of `world`, which gathers the numbers of towers of
// all; sets what `session`, which runs on `devices`, needs for --averager, and the default of --step_timeout.
// InvalidArgument names the flag; an averager that is not available on `devices` or among processes is an error, too.
// `session` must not outlive `devices`.
absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags(const DeviceSet& devices, World& world,
                                                                   SessionOptions& session);

}  // namespace belfry::trainers
