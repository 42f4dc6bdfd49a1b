#include "trainers/flags/program_flags.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
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

ABSL_FLAG(int, micro_batches, 1,
          "Gradient accumulation: each device runs so many towers one after the other, 1, 2, 4, 8 ..., adds up their "
          "gradients, and updates once a step. A step is one of that many times as many towers, bit by bit, and needs "
          "the memory of one tower and log2 of that number of times the gradients, those of embeddings whole.");

namespace belfry::trainers {
namespace {

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
  const int series = absl::GetFlag(FLAGS_micro_batches);
  if (series < 1 || series > 1024 || (series & (series - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--micro_batches is ", series, "; expected a power of two from 1 to 1024"));
  }
  models::ReplicateOptions options{
      .first_tower = towers.first[world.rank()] * series, .towers = towers.total() * series, .series = series};
  ASSIGN_OR_RETURN(options.variable_update, models::ParseVariableUpdate(absl::GetFlag(FLAGS_variable_update)));
  if (options.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"averager"}, "a run with --variable_update=independent, which averages nothing"));
  }
  options.shard_optimizer = absl::GetFlag(FLAGS_shard_optimizer);
  if (options.shard_optimizer && options.variable_update != models::VariableUpdate::kReplicated) {
    return absl::InvalidArgumentError(absl::StrCat("--shard_optimizer needs --variable_update=replicated, not ",
                                                   absl::GetFlag(FLAGS_variable_update)));
  }
  return options;
}

}  // namespace belfry::trainers
