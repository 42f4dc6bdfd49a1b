// Names of checkpoints and keys of their metadata, shared by loading and saving.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/io/safetensors.h"

namespace belfry::io {

inline constexpr char kLatest[] = "latest";
inline constexpr char kBest[] = "best";
inline constexpr char kStepKey[] = "belfry.step";
inline constexpr char kMetricKey[] = "belfry.metric";

// "step-00000100.safetensors"
std::string CheckpointName(int64_t step);
// The inverse of CheckpointName, for any number of leading zeros; nullopt for any other name.
std::optional<int64_t> StepOfName(absl::string_view name);
// The metric in a checkpoint's metadata; nullopt if there is none.
std::optional<double> MetricOf(const Metadata& metadata);

std::string PathIn(const std::string& folder, absl::string_view name);
// The path that the link `name` in the folder points to, or the path of `name` itself if it is not a link.
std::string FollowLink(const std::string& folder, const char* name);

}  // namespace belfry::io
