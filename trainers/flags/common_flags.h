// The flags that all trainers share.
#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "models/replicate_towers.h"
#include "trainers/flags/command_line.h"

ABSL_DECLARE_FLAG(std::string, devices);
ABSL_DECLARE_FLAG(int, threads_per_device);
ABSL_DECLARE_FLAG(int, virtual_gpus);
ABSL_DECLARE_FLAG(std::string, gpu_memory);
ABSL_DECLARE_FLAG(bool, gpu_memory_growth);
ABSL_DECLARE_FLAG(std::string, visible_gpus);
ABSL_DECLARE_FLAG(bool, gpu_copy_through_host);
ABSL_DECLARE_FLAG(bool, log_device_placement);
ABSL_DECLARE_FLAG(bool, allow_soft_placement);
ABSL_DECLARE_FLAG(std::string, dump_plan);
ABSL_DECLARE_FLAG(int64_t, steps);
ABSL_DECLARE_FLAG(int64_t, batch_size);
ABSL_DECLARE_FLAG(int64_t, batch_size_per_tower);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(std::string, variable_update);
ABSL_DECLARE_FLAG(std::string, averager);
ABSL_DECLARE_FLAG(std::string, data_dir);
ABSL_DECLARE_FLAG(std::string, train_dir);
ABSL_DECLARE_FLAG(std::string, metrics_file);

namespace belfry::trainers {

// Reads the command line. --help prints `usage` and the flags of the trainers, and ends the program; so do an unknown
// flag, an argument that is not a flag, and one of `rejected`, with an error. `rejected`: those of the flags below that
// mean nothing to the program.
void ParseCommandLine(int argc, char** argv, absl::string_view usage,
                      absl::Span<const absl::string_view> rejected = {});

// InvalidArgument if one of the flags is not at its default: to `who` it means nothing.
absl::Status RejectFlags(absl::Span<const absl::string_view> flags, absl::string_view who);
// InvalidArgument unless low <= value <= high.
absl::Status CheckFlag(absl::string_view flag, int64_t value, int64_t low, int64_t high);
// InvalidArgument unless the rate is finite and above 0.
absl::Status CheckLearningRate(double rate);

// What the flags say. InvalidArgument names the flag.
DeviceOptions DeviceOptionsFromFlags();
// Those of --devices; an error, too, if what is said about GPUs does not concern any of them, or if --averager is not
// known or does not work among them.
absl::StatusOr<DeviceSet> OpenDevices();
// --batch_size, or --batch_size_per_tower for each of the towers on `devices`; low to high.
absl::StatusOr<int64_t> GlobalBatchSize(const DeviceSet& devices, int64_t low = 1, int64_t high = 1 << 20);
SessionOptions SessionOptionsFromFlags();
absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags();
// --steps, or `otherwise` if it was left at -1.
absl::StatusOr<int64_t> Steps(int64_t otherwise);
// --metrics_file, or metrics.jsonl in --train_dir; empty if neither is given. Makes --train_dir and --dump_plan if need
// be and opens the file once: what cannot be written is an error before any work.
absl::StatusOr<std::string> PrepareOutputs();

}  // namespace belfry::trainers
