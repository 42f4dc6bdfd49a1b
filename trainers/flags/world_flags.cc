#include "trainers/flags/world_flags.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/open_world.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/device_flags.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/task_sync.h"

ABSL_FLAG(double, start_timeout, 300,
          "Seconds that processes started by a launcher wait for each other at the start, at the end, and between "
          "steps.");

namespace belfry::trainers {
namespace {

// The program and its flags, as lines "--name=value": all but those that concern one process.
std::vector<std::string> SharedFlags() {
  constexpr absl::string_view kOwn[] = {
      "data_dir",          "data_threads",         "devices",      "dump_plan", "gpu_memory",
      "gpu_memory_growth", "log_device_placement", "metrics_file", "quiet",     "threads_per_device",
      "train_dir",         "visible_gpus"};
  std::vector<std::string> lines;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!absl::StrContains(flag->Filename(), "trainers/") || absl::c_linear_search(kOwn, name)) continue;
    lines.push_back(absl::StrCat("--", name, "=", flag->CurrentValue()));
  }
  std::sort(lines.begin(), lines.end());
  lines.insert(lines.begin(), program_invocation_short_name);
  return lines;
}

}  // namespace

absl::Duration StartTimeout() { return absl::Seconds(absl::GetFlag(FLAGS_start_timeout)); }
absl::Time StartDeadline() { return SteadyNow() + StartTimeout(); }

absl::StatusOr<std::unique_ptr<World>> OpenWorldFromFlags() {
  if (const double timeout = absl::GetFlag(FLAGS_start_timeout); !(timeout > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("--start_timeout=", timeout, "; expected more than 0 seconds"));
  }
  if (DeviceOptionsFromFlags().ignore_launcher) return World::Alone();
  absl::StatusOr<std::unique_ptr<World>> opened = OpenWorld(FindLaunch(), StartDeadline());
  if (absl::IsFailedPrecondition(opened.status()) || absl::IsNotFound(opened.status())) {
    return absl::Status(opened.status().code(),
                        absl::StrCat(opened.status().message(), "; with --world=none each process runs by itself"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<World> world, std::move(opened));
  // First of all: which messages processes exchange depends on the flags.
  if (world->size() > 1) RETURN_IF_ERROR(CheckSameLines(*world, "flags", SharedFlags(), StartDeadline()));
  return world;
}

DeviceOptions DeviceOptionsFromFlags(const World& world) { return OptionsOfTask(world, DeviceOptionsFromFlags()); }

int RunInWorld(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::StatusOr<int>(World&)> run) {
  return RunProgram([&] {
    ParseCommandLine(argc, argv, usage);
    const absl::StatusOr<std::unique_ptr<World>> world = OpenWorldFromFlags();
    if (!world.ok()) return ExitStatus(world.status());
    return ExitStatus(RunInWorld(**world, run, StartTimeout()));
  });
}

}  // namespace belfry::trainers
