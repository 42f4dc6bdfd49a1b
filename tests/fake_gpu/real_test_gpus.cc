#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "tests/fake_gpu/test_gpus.h"

namespace belfry {
namespace {

// The same results as on CPUs, and in every run.
constexpr MathMode kMath = {.tf32 = false, .deterministic = true};

}  // namespace

absl::StatusOr<DeviceSet> OpenTestGpus(int gpus) {
  ASSIGN_OR_RETURN(const int cards, CountGpuDevices({}));
  if (cards >= gpus) return OpenTestCards(gpus);
  return DeviceSet::Open(absl::StrCat("gpu:", gpus), {.virtual_gpus = gpus, .visible_gpus = "0", .math = kMath});
}

absl::StatusOr<DeviceSet> OpenFastTestGpu() { return DeviceSet::Open("gpu:1", {.math = {.tf32 = false}}); }

absl::StatusOr<DeviceSet> OpenTf32TestGpu() {
  return DeviceSet::Open("gpu:1", {.math = {.tf32 = true, .deterministic = true}});
}

absl::StatusOr<DeviceSet> OpenTestCards(int gpus) {
  return DeviceSet::Open(absl::StrCat("gpu:", gpus), {.math = kMath});
}

}  // namespace belfry
