// Reading of a position from a checkpoint's metadata. Internal.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

inline constexpr char kEpochKey[] = "data.epoch";
inline constexpr char kBatchKey[] = "data.batch";

// The number of that key. InvalidArgument: there is none, or it is below `lowest`.
absl::StatusOr<int64_t> TakeCount(const io::Metadata& metadata, const std::string& key, int64_t lowest);
// FailedPrecondition, with both values and the remedy, if a setting does not have the value it had when the position
// was saved. InvalidArgument: there is none.
absl::Status CheckSameSetting(const io::Metadata& metadata, const std::string& key, const std::string& now);
// InvalidArgument if the batch is not one of an epoch of `batches`.
absl::Status CheckWithinEpoch(int64_t batch, int64_t batches);

}  // namespace belfry::data
