#include "trainers/flags/replication_flags.h"

#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(std::string, variable_update, "replicated",
          "replicated: every device holds the variables, and gradients are all-reduced. parameter_device: one copy of "
          "the variables on /cpu:0. independent: copies without averaging, to measure what averaging costs.");
ABSL_FLAG(std::string, averager, "local",
          "How gradients are averaged. local: in ascending order of towers, with the same bits on every device. nccl: "
          "among GPUs, in NCCL's order.");

namespace belfry::trainers {
namespace {

absl::Status SetAverager(const DeviceSet& devices, SessionOptions& session) {
  const std::string averager = absl::GetFlag(FLAGS_averager);
  if (averager == "local") return absl::OkStatus();
  if (averager != "nccl") {
    return absl::InvalidArgumentError(
        absl::StrCat("--averager=", averager, " is unknown; the averagers are local and nccl"));
  }
  std::vector<Device*> towers;
  for (int tower : devices.TowerDevices()) towers.push_back(&devices.device(tower));
  absl::Status status = CheckNcclDevices(towers);
  if (status.ok()) status = OpenNccl().status();
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("--averager=nccl: ", status.message()));
  session.collectives = NcclFactory();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags(const DeviceSet& devices, SessionOptions& session) {
  RETURN_IF_ERROR(SetAverager(devices, session));
  models::ReplicateOptions options;
  ASSIGN_OR_RETURN(options.variable_update, models::ParseVariableUpdate(absl::GetFlag(FLAGS_variable_update)));
  if (options.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"averager"}, "a run with --variable_update=independent, which averages nothing"));
  }
  return options;
}

}  // namespace belfry::trainers
