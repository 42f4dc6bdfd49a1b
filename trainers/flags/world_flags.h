// Flags for the processes of a run that a launcher started as several.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"
#include "framework/device/device_set.h"

namespace belfry::trainers {

// Opens the world of the launcher, or that of one process if there is none or --world=none. Errors: those of OpenWorld;
// FailedPrecondition shows both sides if the processes run different programs, or have different flags other than those
// that concern one process (--devices, --data_dir).
absl::StatusOr<std::unique_ptr<World>> OpenWorldFromFlags();
// --start_timeout, and its end, counted from now, by SteadyNow: the deadline of exchanges at the start and at the end.
absl::Duration StartTimeout();
absl::Time StartDeadline();

// OptionsOfTask (trainers/loop/run_in_world.h) with those of the flags.
DeviceOptions DeviceOptionsFromFlags(const World& world);

// RunProgram (trainers/flags/command_line.h) for a program whose processes may be several: calls `run` by RunInWorld
// (trainers/loop/run_in_world.h), in the world of the flags.
int RunInWorld(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::StatusOr<int>(World&)> run);

}  // namespace belfry::trainers
