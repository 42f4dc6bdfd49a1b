#include "absl/strings/str_cat.h"
#include "framework/device/device_set.h"

namespace belfry {
namespace {

constexpr char kWhy[] = "this Belfry was built without CUDA";

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpuDevices(int count, const DeviceOptions&) {
  return absl::InvalidArgumentError(
      absl::StrCat("Asked for ", count, count == 1 ? " GPU" : " GPUs", ", and found 0: ", kWhy, "; use cpu:N"));
}

absl::StatusOr<int> CountGpuDevices(const DeviceOptions&) { return absl::NotFoundError(kWhy); }

}  // namespace belfry
