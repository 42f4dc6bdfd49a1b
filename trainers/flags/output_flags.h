// Flags for where a run writes its results.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"

ABSL_DECLARE_FLAG(std::string, train_dir);
ABSL_DECLARE_FLAG(std::string, metrics_file);

namespace belfry::trainers {

// --metrics_file, or metrics.jsonl in --train_dir; empty if neither is set. Creates --train_dir and opens the file
// once, so that a path that cannot be written is an error (Unavailable) before any work.
absl::StatusOr<std::string> PrepareOutputs();

}  // namespace belfry::trainers
