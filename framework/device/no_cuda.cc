#include "absl/strings/str_cat.h"
#include "framework/device/device_set.h"

namespace belfry {

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpuDevices(int count, const DeviceOptions&) {
  return absl::InvalidArgumentError(absl::StrCat("Asked for ", count, count == 1 ? " GPU" : " GPUs",
                                                 ", and found 0: this Belfry was built without CUDA; use cpu:N"));
}

}  // namespace belfry
