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
// The page holds its data as one JSON object, in <script id="data">: runs ({name, last_step}) and charts:
// {title, scale, lines: [{run, key, label, cells, columns: [[step, mean, min, max], ...]}]}. `scale` is logarithmic,
// linear, zero (linear from 0) or shares (stacked, in percent of their sum).
std::string PlotPage(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
