// Flags for the devices of a program, and for its processes, if a launcher started several.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"
#include "trainers/flags/flags.h"

namespace belfry::trainers {

struct DeviceFlags {
  explicit DeviceFlags(Flags& flags);

  Flags& all;
  std::string devices = "cpu:1";
  DeviceOptions options = {};
  std::string world = "auto";
  double start_timeout = 300;  // seconds

  // Opens the world of the launcher, or that of one process if there is none or --world=none. Errors: those of
  // OpenWorld; FailedPrecondition shows both sides if the processes run different programs, or have different flags
  // other than those that concern one process (Flag::PerTask).
  absl::StatusOr<std::unique_ptr<World>> OpenWorld();
  // OptionsOfTask (trainers/loop/run_in_world.h) with `options`.
  DeviceOptions OptionsOf(const World& world) const;
  // --start_timeout, and its end, counted from now, by SteadyNow: the deadline of exchanges at the start and at the
  // end.
  absl::Duration StartTimeout() const { return absl::Seconds(start_timeout); }
  absl::Time StartDeadline() const;
};

// RunProgram (trainers/flags/command_line.h) for a program whose processes may be several: calls `run` by RunInWorld
// (trainers/loop/run_in_world.h), in the world of the flags.
int RunInWorld(int argc, char** argv, absl::string_view usage, DeviceFlags& flags,
               absl::FunctionRef<absl::StatusOr<int>(World&)> run);

}  // namespace belfry::trainers
