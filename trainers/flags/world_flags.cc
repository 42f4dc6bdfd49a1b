#include "trainers/flags/world_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainers/flags/device_flags.h"

ABSL_FLAG(double, start_timeout, 300,
          "Seconds that processes started by a launcher wait for each other at the start and at the end.");

namespace belfry::trainers {

absl::Time StartDeadline() { return absl::Now() + absl::Seconds(absl::GetFlag(FLAGS_start_timeout)); }

absl::StatusOr<std::unique_ptr<World>> OpenWorldFromFlags() {
  if (const double timeout = absl::GetFlag(FLAGS_start_timeout); !(timeout > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("--start_timeout=", timeout, "; expected more than 0 seconds"));
  }
  if (DeviceOptionsFromFlags().ignore_launcher) return OpenWorld({}, StartDeadline());
  return OpenWorld(FindLaunch(), StartDeadline());
}

DeviceOptions DeviceOptionsFromFlags(const World& world) {
  DeviceOptions options = DeviceOptionsFromFlags();
  if (world.size() == 1) return options;
  options.ignore_launcher = true;
  options.job = "worker";
  options.task = world.rank();
  return options;
}

}  // namespace belfry::trainers
