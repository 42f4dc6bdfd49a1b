// Flags for the processes of a run that a launcher started as several.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"

namespace belfry::trainers {

// Opens the world of the launcher, or that of one process if there is none or --world=none. Errors: those of OpenWorld.
absl::StatusOr<std::unique_ptr<World>> OpenWorldFromFlags();
// The end of --start_timeout, counted from now: the deadline of exchanges at the start and at the end.
absl::Time StartDeadline();

// DeviceOptionsFromFlags for a process of `world`: its devices are called /job:worker/task:<rank> if it has several.
DeviceOptions DeviceOptionsFromFlags(const World& world);

}  // namespace belfry::trainers
