// What loading and saving checkpoints share: their names and the keys of their metadata.
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
// Its inverse, for any number of leading zeros; nothing for any other name.
std::optional<int64_t> StepOfName(absl::string_view name);
// The metric in a checkpoint's metadata, if there is one.
std::optional<double> MetricOf(const Metadata& metadata);

std::string PathIn(const std::string& folder, absl::string_view name);
// The path that the link `name` in the folder leads to; of a file that is no link, its own.
std::string FollowLink(const std::string& folder, const char* name);

}  // namespace belfry::io
