// Flags for how devices compute, and for how a session places, compiles, runs and checks its steps.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "trainers/flags/device_flags.h"
#include "trainers/prediction/gpu_card.h"

namespace belfry::trainers {

struct SessionFlags {
  SessionFlags(Flags& flags, DeviceFlags& device_flags);

  DeviceFlags& device;
  std::string as = {}, recompute = "none";
  double step_timeout = -1;  // seconds
  SessionOptions options = {};

  // The card of --as; none without the flag. Errors: those of GpuCard::Find.
  absl::StatusOr<std::optional<GpuCard>> Card() const;

  // Opens --devices in a process of `world` for computing as the flags say, or describes them by --as. Processes of one
  // machine that may run on the same cores share them by number, and get cores of their own. InvalidArgument for a GPU
  // flag without GPUs, and for a CPU flag without CPU towers; the errors of World::AllGather.
  absl::StatusOr<DeviceSet> OpenDevices(World& world) const;
  // Options for a session on `devices`, which OpenDevices has opened. Creates the directory of --dump_plan. Errors name
  // the flag: InvalidArgument for a wrong value, or for --cuda_graphs without GPUs; Unavailable for the directory.
  absl::StatusOr<SessionOptions> OptionsFor(const DeviceSet& devices) const;
};

}  // namespace belfry::trainers
