#include "trainers/loop/run_in_world.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "framework/base/cores.h"
#include "framework/base/launcher.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/open_world.h"
#include "trainers/loop/run_directory.h"

namespace belfry::trainers {
namespace {

// Tells the others of the error of this task; with where all are, if it waited for them in vain.
absl::Status Tell(World& world, absl::Status status) {
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::Status(status.code(), absl::StrCat(status.message(), "\nThe tasks:\n", world.RollCall()));
  }
  world.Fail(status);
  return absl::Status(status.code(), absl::StrCat("in ", Describe(world.rank(), world.processes()[world.rank()]), ": ",
                                                  status.message()));
}

}  // namespace

absl::StatusOr<int> RunInWorld(World& world, absl::FunctionRef<absl::StatusOr<int>(World&)> run,
                               absl::Duration timeout) {
  // The other tasks are told of an error, whatever it is.
  absl::StatusOr<int> result = CatchOutOfMemory("the run", [&] { return run(world); });
  if (world.size() == 1) return result;
  if (!result.ok()) return Tell(world, result.status());
  const absl::Status closed = world.Close(SteadyNow() + timeout, *result == 0 ? 0 : 128 + *result);
  if (!closed.ok()) return Tell(world, closed);
  return result;
}

absl::StatusOr<int> RunInWorld(absl::FunctionRef<absl::StatusOr<int>(World&)> run, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const std::unique_ptr<World> world, OpenWorld(FindLaunch(), SteadyNow() + timeout));
  return RunInWorld(*world, run, timeout);
}

DeviceOptions OptionsOfTask(const World& world, DeviceOptions options) {
  if (world.size() == 1) return options;
  options.ignore_launcher = true;
  options.job = "worker";
  options.task = world.rank();
  options.several_processes = true;
  options.local_rank = world.processes()[world.rank()].local_rank;
  return options;
}

absl::Status ShareCores(World& world, absl::Duration timeout) {
  if (world.size() == 1) return absl::OkStatus();
  const std::vector<int> cores = AvailableCores();
  ASSIGN_OR_RETURN(const std::vector<std::string> masks,
                   world.AllGather(absl::StrJoin(cores, ","), SteadyNow() + timeout));
  size_t sharers = 0, number = 0;
  for (int r = 0; r < world.size(); ++r) {
    if (masks[r] != masks[world.rank()] || world.processes()[r].host != world.processes()[world.rank()].host) continue;
    if (r < world.rank()) ++number;
    ++sharers;
  }
  if (sharers < 2) return absl::OkStatus();
  const size_t begin = cores.size() * number / sharers, end = cores.size() * (number + 1) / sharers;
  BindThisThread(absl::MakeConstSpan(cores).subspan(begin, std::max<size_t>(end - begin, 1)));
  return absl::OkStatus();
}

absl::StatusOr<DeviceSet> OpenDevices(World& world, absl::string_view spec, const DeviceOptions& options,
                                      absl::Duration timeout) {
  RETURN_IF_ERROR(ShareCores(world, timeout));
  return DeviceSet::Open(spec, OptionsOfTask(world, options));
}

absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  absl::StatusOr<io::Checkpoint> latest = io::LoadLatestCheckpoint(CheckpointFolder(directory));
  if (absl::IsNotFound(latest.status())) return std::nullopt;
  RETURN_IF_ERROR(latest.status());
  return std::optional<io::Checkpoint>(*std::move(latest));
}

absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const std::string& directory, World& world,
                                                             absl::Duration timeout) {
  std::optional<io::Checkpoint> checkpoint;
  if (world.rank() == 0) {
    ASSIGN_OR_RETURN(checkpoint, FindCheckpoint(directory));
  }
  return ShareCheckpoint(std::move(checkpoint), world, timeout);
}

absl::StatusOr<std::optional<io::Checkpoint>> ShareCheckpoint(std::optional<io::Checkpoint> checkpoint, World& world,
                                                              absl::Duration timeout) {
  if (world.size() == 1) return checkpoint;
  std::vector<std::string> fields;
  if (checkpoint.has_value()) {
    fields = {checkpoint->path, absl::StrCat(checkpoint->step)};
    for (const auto& [key, value] : checkpoint->metadata) fields.insert(fields.end(), {key, value});
  }
  for (std::string& field : fields) field = absl::CHexEscape(field);
  ASSIGN_OR_RETURN(const std::string text, world.Broadcast(absl::StrJoin(fields, "\n"), SteadyNow() + timeout));
  if (world.rank() == 0 || text.empty()) return checkpoint;
  fields = absl::StrSplit(text, '\n');
  for (std::string& field : fields) {
    if (!absl::CUnescape(field, &field)) return absl::InternalError("the metadata of a checkpoint came in damaged");
  }
  checkpoint.emplace();
  checkpoint->path = fields[0];
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &checkpoint->step)) {
    return absl::InternalError("the step of a checkpoint came in damaged");
  }
  for (size_t i = 2; i + 1 < fields.size(); i += 2) checkpoint->metadata[fields[i]] = fields[i + 1];
  return checkpoint;
}

}  // namespace belfry::trainers
