#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/towers/following.h"
#include "models/towers/replicate_towers.h"

namespace belfry::models {

absl::StatusOr<BatchNormPolicy> ParseBatchNormPolicy(absl::string_view name) {
  if (name == "per_tower") return BatchNormPolicy::kPerTower;
  if (name == "synchronised") return BatchNormPolicy::kSynchronised;
  return absl::InvalidArgumentError(
      absl::StrCat("Unknown batch norm policy '", name, "'; expected per_tower or synchronised"));
}

absl::StatusOr<VariableUpdate> ParseVariableUpdate(absl::string_view name) {
  if (name == "replicated") return VariableUpdate::kReplicated;
  if (name == "parameter_device") return VariableUpdate::kParameterDevice;
  if (name == "independent") return VariableUpdate::kIndependent;
  return absl::InvalidArgumentError(
      absl::StrCat("Unknown variable update '", name, "'; expected replicated, parameter_device or independent"));
}

absl::Status Check(const ReplicateOptions& options) {
  if (options.batch_norm == BatchNormPolicy::kSynchronised && options.variable_update == VariableUpdate::kIndependent) {
    return absl::InvalidArgumentError(
        "Synchronised batch normalisation averages over towers, but variable update 'independent' does not average; "
        "choose 'replicated', or batch norm 'per_tower'");
  }
  if (options.shard_optimizer && options.variable_update != VariableUpdate::kReplicated) {
    return absl::InvalidArgumentError(
        "ReplicateOptions::shard_optimizer divides the state of one model among its replicas, which needs variable "
        "update 'replicated'");
  }
  if (options.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("ReplicateOptions::micro_batches is ", options.micro_batches, "; expected at least 1"));
  }
  if (options.micro_batches > 1 && options.variable_update != VariableUpdate::kReplicated) {
    return absl::InvalidArgumentError(
        "Towers in series (ReplicateOptions::micro_batches) need variable update 'replicated'");
  }
  if (options.micro_batches > 1 && options.batch_norm == BatchNormPolicy::kSynchronised) {
    return absl::InvalidArgumentError(
        "Synchronised batch normalisation needs all towers at the same time, but those in series on one device cannot "
        "meet; choose batch norm 'per_tower', or a device for each tower");
  }
  if (!(options.clip_global_norm >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("ReplicateOptions::clip_global_norm is ", options.clip_global_norm,
                                                   "; expected 0 (no clipping) or more"));
  }
  if (!(options.moving_average >= 0 && options.moving_average < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("ReplicateOptions::moving_average is ", options.moving_average,
                                                   "; expected a decay in [0, 1), 0 for no average"));
  }
  for (const FrozenUntil& until : options.frozen_until) {
    if (until.steps >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("ReplicateOptions::frozen_until freezes '", until.variables,
                                                   "' for ", until.steps, " steps; expected at least 1"));
  }
  for (const Following& follow : options.follow) RETURN_IF_ERROR(CheckFollowing(follow));
  return absl::OkStatus();
}

size_t DefaultBucketBytes(const DeviceSet& devices) {
  const std::vector<int> towers = devices.TowerDevices();
  const auto is_gpu = [&](int device) { return devices.device(device).type() == "GPU"; };
  return std::all_of(towers.begin(), towers.end(), is_gpu) ? kBucketBytesOnGpus : kBucketBytes;
}

}  // namespace belfry::models
