// GPUs for tests that run both on real ones and on fakes.
#pragma once

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"

namespace belfry {

// One CPU device and `gpus` GPUs, which may share a card. If there are not enough, the error gives the reason and the
// test is skipped.
absl::StatusOr<DeviceSet> OpenTestGpus(int gpus);
// One GPU that may choose among kernels by speed.
absl::StatusOr<DeviceSet> OpenFastTestGpu();
// One GPU that may round factors of float32 products to TF32.
absl::StatusOr<DeviceSet> OpenTf32TestGpu();
// Like OpenTestGpus, but each GPU is a card of its own.
absl::StatusOr<DeviceSet> OpenTestCards(int gpus);

}  // namespace belfry
