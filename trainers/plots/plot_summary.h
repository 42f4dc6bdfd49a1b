// What a metric's name says about it, and the figures of runs in a table.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "trainers/plots/run_metrics.h"

namespace belfry::trainers {

// What the names of kSeconds begin with.
inline constexpr absl::string_view kSecondsPrefix = "seconds_";

enum class MetricKind {
  kLoss,          // less is better: loss, test_loss, *_error
  kAccuracy,      // more is better: *accuracy, *top_<N>
  kRate,          // *_per_second
  kLearningRate,  // learning_rate
  kSeconds,       // seconds_<part>: a part of the seconds since the line before
  kOther,
};
MetricKind KindOf(absl::string_view key);

// The keys of all runs, by kind, and among those of one kind "loss" first and then the alphabet.
std::vector<std::string> AllKeys(const std::vector<RunMetrics>& runs);

// A <table> with a row for each run: its last step; of losses and accuracies the last and the best value, with the step
// of the latter; the mean of rates, without the 0 that a run writes before it has measured one; the share of each part
// of the time; of anything else, but for learning rates, the last value.
std::string SummaryTable(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
