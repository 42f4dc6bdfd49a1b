// The flags that all trainers share.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"

ABSL_DECLARE_FLAG(std::string, devices);
ABSL_DECLARE_FLAG(int, threads_per_device);
ABSL_DECLARE_FLAG(bool, log_device_placement);
ABSL_DECLARE_FLAG(bool, allow_soft_placement);
ABSL_DECLARE_FLAG(std::string, dump_plan);
ABSL_DECLARE_FLAG(int64_t, steps);
ABSL_DECLARE_FLAG(int64_t, batch_size);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(std::string, variable_update);
ABSL_DECLARE_FLAG(std::string, averager);
ABSL_DECLARE_FLAG(std::string, data_dir);
ABSL_DECLARE_FLAG(std::string, train_dir);
ABSL_DECLARE_FLAG(std::string, metrics_file);

namespace belfry::trainers {

// Reads the command line. --help prints `usage` and the flags of the trainers, and ends the program; so do an unknown
// flag and an argument that is not a flag, with an error.
void ParseCommandLine(int argc, char** argv, absl::string_view usage);

// What the flags say. InvalidArgument names the flag.
absl::StatusOr<DeviceSet> OpenDevices();
SessionOptions SessionOptionsFromFlags();
absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags();
// --steps, or `otherwise` if it was left at -1.
absl::StatusOr<int64_t> Steps(int64_t otherwise);
// --metrics_file, or metrics.jsonl in --train_dir, which is made if need be; empty if neither is given.
absl::StatusOr<std::string> MetricsFile();

// The end of main: prints an error to standard error and returns the exit status.
int ExitStatus(const absl::Status& status);

}  // namespace belfry::trainers
