#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/collective/nccl.h"
#include "trainers/flags/program_flags.h"

namespace belfry::trainers {
namespace {

constexpr int kMaxInSeries = 1024;
constexpr absl::Duration kStepTimeoutOfSeveral = absl::Minutes(10);

}  // namespace

void ProgramFlags::AddReplication() {
  all.Section("Towers");
  all.Add("towers", &towers,
          "The number of towers of all devices and processes; 0: one for each device. A device that has several, 2, 4, "
          "8 ... or all, runs them one after the other, adds up their gradients, and updates once a step. So a run of "
          "8 towers is the same, bit by bit, on 1, 2, 4 and 8 devices of the same --threads_per_device. It needs the "
          "memory of one tower and log2 of the towers of a device times the gradients, those of embeddings whole.");
  all.Add("micro_batches", &micro_batches, Range(1, kMaxInSeries),
          "Gradient accumulation: the number of towers of each device, instead of --towers. With 4, a step on 2 "
          "devices is that of --towers=8.");
  all.Add("variable_update", &variable_update,
          OneOf("kinds of update", {"replicated", "parameter_device", "independent"}),
          "replicated: every device holds the variables, and gradients are all-reduced. parameter_device: one copy of "
          "the variables on /cpu:0. independent: copies without averaging, to measure what averaging costs.");
  all.Add(
      "averager", &averager, OneOf("averagers", {"local", "mpi", "nccl"}),
      "How gradients are averaged. local: in an order that the number of towers fixes, with the same bits on every "
      "device and for every number of processes. mpi: among several processes, each of which sums its own towers "
      "first, so that less goes over the network if it has several. nccl: among GPUs, of one process or of several, in "
      "NCCL's order. Among GPUs of several processes local and mpi go through host memory, which is slow.");
  all.Add("shard_optimizer", &replicate.shard_optimizer,
          "Divide the optimizer's state among the towers of all processes (ZeRO, stage 1): each holds and updates its "
          "part. The model is the same, bit by bit, with --averager=local; checkpoints are, too.");
  all.Add("freeze", &replicate.frozen,
          "Patterns of names of variables that stay as they are, separated by commas: 'conv*,local3/*'. * stands for "
          "any text, ? for one character. A frozen batch normalisation normalises with its moving averages.");
  all.Add(
      "trainable", &replicate.trainable,
      "Patterns of names of variables that are trained, separated by commas; all others are frozen. Empty: all that "
      "--freeze leaves.");
  all.Add(
      "frozen_until", &frozen_until,
      "Variables that stay as they are in the first steps, and are trained from then on, as PATTERN:STEPS, separated "
      "by commas: 'conv*:200,local3/*:400'. Batch normalisation is as in training throughout.");
}

// --frozen_until
absl::StatusOr<std::vector<models::FrozenUntil>> ProgramFlags::FrozenUntil() const {
  std::vector<models::FrozenUntil> all_of_them;
  for (const std::string& text : frozen_until) {
    const size_t colon = text.rfind(':');
    models::FrozenUntil until{.variables = text.substr(0, colon)};
    const bool number = colon != text.npos && absl::SimpleAtoi(text.substr(colon + 1), &until.steps);
    if (!number || until.variables.empty() || until.steps < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--frozen_until is '", text, "'; expected a pattern and a number of steps: 'conv*:200'"));
    }
    all_of_them.push_back(std::move(until));
  }
  return all_of_them;
}

absl::Status ProgramFlags::SetAverager(const DeviceSet& devices, World& world, const TowersOfWorld& towers_of,
                                       SessionOptions& options) const {
  const bool several = world.size() > 1;
  if (averager == "local") {
    if (several) options.collectives = WorldCollectives(world, towers_of);
    return absl::OkStatus();
  }
  if (averager == "mpi") {
    if (!several) return absl::InvalidArgumentError("--averager=mpi averages among several processes; use local");
    options.collectives = WorldCollectives(world, towers_of, WorldSum::kProcesses);
    return absl::OkStatus();
  }
  std::vector<Device*> gpus;
  for (int tower : devices.TowerDevices()) gpus.push_back(&devices.device(tower));
  absl::Status status = CheckNcclDevices(gpus);
  if (status.ok()) status = OpenNccl().status();
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("--averager=nccl: ", status.message()));
  options.collectives =
      several ? NcclFactory(world, towers_of, {.meet_timeout = device.StartTimeout()}) : NcclFactory();
  return absl::OkStatus();
}

// The number of towers of each of `devices` devices.
absl::StatusOr<int> ProgramFlags::TowersInSeries(int devices) const {
  if (towers != 0) {
    RETURN_IF_ERROR(all.Reject({"micro_batches"}, "a run with --towers, which states the number of all"));
    if (towers < devices || towers % devices != 0 || towers / devices > kMaxInSeries) {
      return absl::InvalidArgumentError(absl::StrCat("--towers is ", towers, ", but there are ",
                                                     Counted(devices, "device"),
                                                     ", each of which has as many towers, 1 to ", kMaxInSeries));
    }
  }
  const int series = towers == 0 ? micro_batches : towers / devices;
  if (devices == 1 || (series & (series - 1)) == 0) return series;
  return absl::InvalidArgumentError(
      absl::StrCat(towers == 0 ? "--micro_batches is "
                               : absl::StrCat("--towers is ", towers, ", so the towers of each device would be "),
                   series, "; on ", devices,
                   " devices it must be 1, 2, 4, 8 ..., so that gradients are added up in the same order on ",
                   "any number of devices"));
}

absl::StatusOr<models::ReplicateOptions> ProgramFlags::Replication(const DeviceSet& devices, World& world,
                                                                   SessionOptions& options) const {
  const auto local = static_cast<int>(devices.TowerDevices().size());
  ASSIGN_OR_RETURN(const TowersOfWorld towers_of, TowersOfWorld::Gather(world, local, device.StartDeadline()));
  RETURN_IF_ERROR(SetAverager(devices, world, towers_of, options));
  if (world.size() > 1 && session.step_timeout == -1) options.timeout = kStepTimeoutOfSeveral;
  if (world.rank() != 0) {  // whose placement and plans are like those of task 0
    options.log_device_placement = false;
    options.dump_plan.clear();
  }
  ASSIGN_OR_RETURN(const int series, TowersInSeries(towers_of.total()));
  models::ReplicateOptions chosen = replicate;
  chosen.first_tower = towers_of.first[world.rank()] * series;
  chosen.towers = towers_of.total() * series;
  chosen.micro_batches = series;
  ASSIGN_OR_RETURN(chosen.frozen_until, FrozenUntil());
  ASSIGN_OR_RETURN(chosen.variable_update, models::ParseVariableUpdate(variable_update));
  if (chosen.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(all.Reject({"averager"}, "a run with --variable_update=independent, which averages nothing"));
  }
  if (chosen.shard_optimizer && chosen.variable_update != models::VariableUpdate::kReplicated) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard_optimizer needs --variable_update=replicated, not ", variable_update));
  }
  return chosen;
}

}  // namespace belfry::trainers
