// The chart of scaling: speed-up by number of devices.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace belfry::benchmarks {

// A page (trainers/plots/plots.h) from the reports "scaling" and "prediction" of the benchmark, as Report::Json writes
// them; either may be null. A curve for each program with the spread over rounds as bars, the ideal line, and the
// prediction as far as devices were measured; the whole prediction has a chart of its own, with logarithmic axes.
std::string ScalingPage(const nlohmann::ordered_json& measured, const nlohmann::ordered_json& predicted);

// Writes scaling.html from scaling.json and prediction.json in `directory`, those that are there. Returns its path.
// Errors: DataLoss if one of them is not such a report; those of writing.
absl::StatusOr<std::string> WriteScalingPage(const std::string& directory);

}  // namespace belfry::benchmarks
