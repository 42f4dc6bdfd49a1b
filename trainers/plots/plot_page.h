// An HTML page with charts of training runs.
#pragma once

#include <string>
#include <vector>

#include "trainers/plots/run_metrics.h"

namespace belfry::trainers {

// A self-contained page: a summary table and charts of loss (logarithmic or linear), accuracy, learning rate,
// throughput, every other key, and, for each run with keys seconds_*, the shares of its time. Runs share the charts.
// Chart.js (MIT license) draws them; it is part of the page, which therefore needs no network.
//
// The page holds its data as one JSON object, in <script id="data">: runs ({name, last_step}), table (by heading, a
// cell or null for each run) and charts ({title, y, datasets}; y and datasets are options of Chart.js). A point is
// [step, y, text of the tooltip], in the faint line of a curve's ranges [step, y]; y is null in a gap.
std::string PlotPage(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
