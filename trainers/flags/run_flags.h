// Flags for the steps of a run, their batch and their randomness, and for where it writes its results.
#pragma once

#include <cstdint>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

ABSL_DECLARE_FLAG(int64_t, steps);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(std::string, train_dir);
ABSL_DECLARE_FLAG(std::string, metrics_file);

namespace belfry::trainers {

// Examples per step over all towers (of all processes): --batch_size, or --batch_size_per_tower for each of them.
// InvalidArgument unless it is low to high, or if both flags are set.
absl::StatusOr<int64_t> GlobalBatchSize(int towers, int64_t low = 1, int64_t high = 1 << 20);

// InvalidArgument, naming the flag, if the batch that GlobalBatchSize returned exceeds the `examples` of the data,
// which are called `what`: "training image".
absl::Status CheckBatchFits(int64_t batch_size, int64_t examples, absl::string_view what);

// --steps, or `default_steps` if it is -1. InvalidArgument below -1.
absl::StatusOr<int64_t> Steps(int64_t default_steps);

// --max_run_time, for StopSignals. InvalidArgument unless it is above 0.
absl::StatusOr<absl::Duration> MaxRunTime();

// --metrics_file, or metrics.jsonl in --train_dir; empty if neither is set. Creates --train_dir and opens the file
// once, so that a path that cannot be written is an error (Unavailable) before any work.
absl::StatusOr<std::string> PrepareOutputs();

}  // namespace belfry::trainers
