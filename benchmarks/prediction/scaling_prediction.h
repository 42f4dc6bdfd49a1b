// Predicted speeds of a model in many processes, as a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmarks/prediction/traced_tower.h"
#include "benchmarks/report.h"
#include "trainers/prediction/predict.h"

namespace belfry::benchmarks {

// "1,2,4,...,1000": numbers of processes, ascending. "..." stands for the doubles of the number before it, as long as
// they are below the number after it. InvalidArgument: anything else.
absl::StatusOr<std::vector<int64_t>> ParseCounts(absl::string_view text);

// Steps that were run, in seconds.
struct TimedSteps {
  std::vector<double> rehearsed;  // by RehearseStep, one for each count; empty: none
  int64_t processes = 1;
  std::optional<double> real;  // by TimeStep, of that many processes
};

// A row for each number of processes, which also names the bucket size with the shortest step, and the largest number
// with an efficiency of 0.9. `what` names the program and its link. Errors are those of Predict.
absl::StatusOr<Report> PredictScaling(const std::string& what, const TracedTower& tower, const PredictOptions& options,
                                      const std::vector<int64_t>& counts, const TimedSteps& timed = {});

}  // namespace belfry::benchmarks
