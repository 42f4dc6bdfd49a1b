// Flags for how towers share variables and average gradients (models/replicate_towers.h).
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"

ABSL_DECLARE_FLAG(std::string, variable_update);
ABSL_DECLARE_FLAG(std::string, averager);

namespace belfry::trainers {

// Options from --variable_update; sets the collectives of `session`, which runs on `devices`, from --averager.
// InvalidArgument names the flag; an averager that is not available on `devices` is an error, too.
absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags(const DeviceSet& devices, SessionOptions& session);

}  // namespace belfry::trainers
