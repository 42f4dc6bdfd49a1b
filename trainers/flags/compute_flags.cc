#include "trainers/flags/compute_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(bool, bind_threads, true,
          "Pin the threads of each CPU device to their own cores when several devices together use every core.");
ABSL_FLAG(bool, tf32, true,
          "On GPUs, allow TF32 (10 bits of mantissa) in float32 products and convolutions, which is much faster.");
ABSL_FLAG(
    bool, winograd, true,
    "On CPUs, allow Winograd's algorithm for convolutions, which is much faster; rounding errors are four to five "
    "times as large, and 7 to 15 times in the gradients of filters.");
ABSL_FLAG(bool, deterministic, false,
          "On GPUs, compute the same bits in every run: kernels are chosen by rule instead of by timing them, and "
          "never one whose sums depend on timing.");

namespace belfry::trainers {

absl::StatusOr<DeviceSet> OpenDevices(DeviceOptions options) {
  options.bind_threads = absl::GetFlag(FLAGS_bind_threads);
  options.math = {.tf32 = absl::GetFlag(FLAGS_tf32),
                  .deterministic = absl::GetFlag(FLAGS_deterministic),
                  .winograd = absl::GetFlag(FLAGS_winograd)};
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open(absl::GetFlag(FLAGS_devices), options));
  const std::string context = absl::StrCat("a run on --devices=", absl::GetFlag(FLAGS_devices));
  if (devices.device(devices.TowerDevices()[0]).type() == "GPU") {
    RETURN_IF_ERROR(RejectFlags({"winograd"}, context));
  } else {
    RETURN_IF_ERROR(RejectFlags({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus", "tf32",
                                 "deterministic", "gpu_copy_through_host"},
                                context));
  }
  return devices;
}

}  // namespace belfry::trainers
