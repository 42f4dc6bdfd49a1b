// Names of checkpoints and keys of their metadata, shared by loading and saving.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/safetensors.h"

namespace belfry::io {

inline constexpr char kLatest[] = "latest";
inline constexpr char kBest[] = "best";
inline constexpr char kStepKey[] = "belfry.step";
inline constexpr char kMetricKey[] = "belfry.metric";
inline constexpr char kMetricNameKey[] = "belfry.metric_name";
inline constexpr char kMetricBetterKey[] = "belfry.metric_better";  // kLarger or kSmaller
inline constexpr char kLarger[] = "larger", kSmaller[] = "smaller";

// The inverse of CheckpointName, for any number of leading zeros; nullopt for any other name.
std::optional<int64_t> StepOfName(absl::string_view name);
// Takes the metric out of a checkpoint's metadata; nullopt if there is none. One without a name is an accuracy.
std::optional<Metric> TakeMetric(Metadata& metadata);

std::string PathIn(const std::string& folder, absl::string_view name);
// The path that the link `name` in the folder points to, or the path of `name` itself if it is not a link.
std::string FollowLink(const std::string& folder, const char* name);

}  // namespace belfry::io
