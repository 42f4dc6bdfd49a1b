// Flags for the number of training steps, their batch and their randomness.
#pragma once

#include <cstdint>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device_set.h"

ABSL_DECLARE_FLAG(int64_t, steps);
ABSL_DECLARE_FLAG(int64_t, batch_size);
ABSL_DECLARE_FLAG(int64_t, batch_size_per_tower);
ABSL_DECLARE_FLAG(uint64_t, seed);

namespace belfry::trainers {

// Examples per step over all towers (of all processes): --batch_size, or --batch_size_per_tower for each of them.
// InvalidArgument unless it is low to high, or if both flags are set.
absl::StatusOr<int64_t> GlobalBatchSize(int towers, int64_t low = 1, int64_t high = 1 << 20);

// InvalidArgument, naming the flag, if the batch that GlobalBatchSize returned exceeds the `examples` of the data,
// which are called `what`: "training image".
absl::Status CheckBatchFits(int64_t batch_size, int64_t examples, absl::string_view what);

// --steps, or `default_steps` if it is -1. InvalidArgument below -1.
absl::StatusOr<int64_t> Steps(int64_t default_steps);

}  // namespace belfry::trainers
