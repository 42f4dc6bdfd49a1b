// The GPUs of tests that run both on real ones and on fakes.
#pragma once

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// One CPU device and `gpus` GPUs, which may share a card. An error, which says why, if there are not as many: then the
// test is skipped.
absl::StatusOr<DeviceSet> OpenTestGpus(int gpus);
// One GPU that may choose among kernels by their speed.
absl::StatusOr<DeviceSet> OpenFastTestGpu();
// The same, each of them a card of its own.
absl::StatusOr<DeviceSet> OpenTestCards(int gpus);

}  // namespace belfry
