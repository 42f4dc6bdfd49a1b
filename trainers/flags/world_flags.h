// Flags for the processes of a run that a launcher started as several.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"
#include "framework/device/device_set.h"

namespace belfry::trainers {

// Opens the world of the launcher, or that of one process if there is none or --world=none. Errors: those of OpenWorld;
// FailedPrecondition shows both sides if the processes run different programs, or have different flags other than those
// that concern one process (--devices, --data_dir).
absl::StatusOr<std::unique_ptr<World>> OpenWorldFromFlags();
// The end of --start_timeout, counted from now, by SteadyNow: the deadline of exchanges at the start and at the end.
absl::Time StartDeadline();

// DeviceOptionsFromFlags for a process of `world`: if it has several, its devices are called /job:worker/task:<rank>,
// and it opens the GPUs of its machine that come after those of the processes before it (DeviceOptions::local_rank).
DeviceOptions DeviceOptionsFromFlags(const World& world);

// The main function of a program whose processes may be several: opens the world, calls `run` in it, and closes it.
// Returns the exit status for what `run` returns, 0 or the signal that ended it, as ExitStatus. An error of one process
// ends all: each prints it once, with the task that it comes from.
int RunInWorld(const std::function<absl::StatusOr<int>(World&)>& run);

}  // namespace belfry::trainers
