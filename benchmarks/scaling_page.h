// The chart of scaling: speed-up by number of devices.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace belfry::benchmarks {

// A page (trainers/plots/plots.h) from the report of the benchmark `scaling`, as Report::Json writes it: a curve for
// each program with the spread over rounds as bars, and the ideal line.
std::string ScalingPage(const nlohmann::ordered_json& report);

// Writes scaling.html in `directory`, and returns its path. Errors: those of writing.
absl::StatusOr<std::string> WriteScalingPage(const nlohmann::ordered_json& report, const std::string& directory);

}  // namespace belfry::benchmarks
