#include "trainers/flags/program_flags.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "framework/collective/nccl.h"
#include "framework/collective/world_collective.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/world_flags.h"
#include "trainers/loop/run_in_world.h"

ABSL_FLAG(std::string, variable_update, "replicated",
          "replicated: every device holds the variables, and gradients are all-reduced. parameter_device: one copy of "
          "the variables on /cpu:0. independent: copies without averaging, to measure what averaging costs.");
ABSL_FLAG(
    std::string, averager, "local",
    "How gradients are averaged. local: in an order that the number of towers fixes, with the same bits on every "
    "device and for "
    "every number of processes. mpi: among several processes, each of which sums its own towers first, so that "
    "less goes over the network if it has several. nccl: among GPUs, of one process or of several, in NCCL's order. "
    "Among GPUs of several processes local and mpi go through host memory, which is slow.");

ABSL_FLAG(bool, shard_optimizer, false,
          "Divide the optimizer's state among the towers of all processes (ZeRO, stage 1): each holds and updates its "
          "part. The model is the same, bit by bit, with --averager=local; checkpoints are, too.");

ABSL_FLAG(
    int, towers, 0,
    "The number of towers of all devices and processes; 0: one for each device. A device that has several, 2, 4, "
    "8 ... or all, runs them one after the other, adds up their gradients, and updates once a step. So a run of 8 "
    "towers is the same, bit by bit, on 1, 2, 4 and 8 devices of the same --threads_per_device. It needs the memory of "
    "one tower and log2 of the towers of a device times the gradients, those of embeddings whole.");
ABSL_FLAG(
    int, micro_batches, 1,
    "Gradient accumulation: the number of towers of each device, instead of --towers. With 4, a step on 2 devices "
    "is that of --towers=8.");

ABSL_FLAG(
    std::vector<std::string>, freeze, {},
    "Patterns of names of variables that stay as they are, separated by commas: 'conv*,local3/*'. * stands for any "
    "text, ? for one character. A frozen batch normalisation normalises with its moving averages.");

namespace belfry::trainers {
namespace {

constexpr int kMaxInSeries = 1024;
constexpr absl::Duration kStepTimeoutOfSeveral = absl::Minutes(10);

absl::Status SetAverager(const DeviceSet& devices, World& world, const TowersOfWorld& towers, SessionOptions& session) {
  const std::string averager = absl::GetFlag(FLAGS_averager);
  const bool several = world.size() > 1;
  if (averager == "local") {
    if (several) session.collectives = WorldCollectives(world, towers);
    return absl::OkStatus();
  }
  if (averager == "mpi") {
    if (!several) return absl::InvalidArgumentError("--averager=mpi averages among several processes; use local");
    session.collectives = WorldCollectives(world, towers, WorldSum::kProcesses);
    return absl::OkStatus();
  }
  if (averager != "nccl") {
    return absl::InvalidArgumentError(
        absl::StrCat("--averager=", averager, " is unknown; the averagers are local, mpi and nccl"));
  }
  std::vector<Device*> gpus;
  for (int tower : devices.TowerDevices()) gpus.push_back(&devices.device(tower));
  absl::Status status = CheckNcclDevices(gpus);
  if (status.ok()) status = OpenNccl().status();
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("--averager=nccl: ", status.message()));
  session.collectives =
      several ? NcclFactory(world, towers, {.meet_timeout = StartDeadline() - SteadyNow()}) : NcclFactory();
  return absl::OkStatus();
}

// The number of towers of each of `devices` devices.
absl::StatusOr<int> TowersInSeries(int devices) {
  const int towers = absl::GetFlag(FLAGS_towers), each = absl::GetFlag(FLAGS_micro_batches);
  if (each < 1 || each > kMaxInSeries) {
    return absl::InvalidArgumentError(absl::StrCat("--micro_batches is ", each, "; expected 1 to ", kMaxInSeries));
  }
  if (towers != 0) {
    RETURN_IF_ERROR(RejectFlags({"micro_batches"}, "a run with --towers, which states the number of all"));
    if (towers < devices || towers % devices != 0 || towers / devices > kMaxInSeries) {
      return absl::InvalidArgumentError(absl::StrCat("--towers is ", towers, ", but there are ",
                                                     Counted(devices, "device"),
                                                     ", each of which has as many towers, 1 to ", kMaxInSeries));
    }
  }
  const int series = towers == 0 ? each : towers / devices;
  if (devices == 1 || (series & (series - 1)) == 0) return series;
  return absl::InvalidArgumentError(
      absl::StrCat(towers == 0 ? "--micro_batches is "
                               : absl::StrCat("--towers is ", towers, ", so the towers of each device would be "),
                   series, "; on ", devices,
                   " devices it must be 1, 2, 4, 8 ..., so that gradients are added up in the same order on ",
                   "any number of devices"));
}

}  // namespace

absl::StatusOr<DeviceSet> OpenDevices(World& world) {
  RETURN_IF_ERROR(ShareCores(world, StartTimeout()));
  return OpenDevices(DeviceOptionsFromFlags(world));
}

absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags(const DeviceSet& devices, World& world,
                                                                   SessionOptions& session) {
  const auto local = static_cast<int>(devices.TowerDevices().size());
  ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, local, StartDeadline()));
  RETURN_IF_ERROR(SetAverager(devices, world, towers, session));
  if (world.size() > 1 && absl::GetFlag(FLAGS_step_timeout) == -1) session.timeout = kStepTimeoutOfSeveral;
  if (world.rank() != 0) {  // whose placement and plans are like those of task 0
    session.log_device_placement = false;
    session.dump_plan.clear();
  }
  ASSIGN_OR_RETURN(const int series, TowersInSeries(towers.total()));
  models::ReplicateOptions options{
      .first_tower = towers.first[world.rank()] * series, .towers = towers.total() * series, .series = series};
  ASSIGN_OR_RETURN(options.variable_update, models::ParseVariableUpdate(absl::GetFlag(FLAGS_variable_update)));
  if (options.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"averager"}, "a run with --variable_update=independent, which averages nothing"));
  }
  options.frozen = absl::GetFlag(FLAGS_freeze);
  options.shard_optimizer = absl::GetFlag(FLAGS_shard_optimizer);
  if (options.shard_optimizer && options.variable_update != models::VariableUpdate::kReplicated) {
    return absl::InvalidArgumentError(absl::StrCat("--shard_optimizer needs --variable_update=replicated, not ",
                                                   absl::GetFlag(FLAGS_variable_update)));
  }
  return options;
}

}  // namespace belfry::trainers
