// An HTML page with charts of training runs.
#pragma once

#include <string>
#include <vector>

#include "trainers/plots/run_metrics.h"

namespace belfry::trainers {

// A page (trainers/plots/page.h) with a summary table and charts of loss (logarithmic or linear), accuracy, learning
// rate, throughput, every other key, and, for each run with keys seconds_*, the shares of its time. Runs share the
// charts. Where a run logs cross_entropy, the chart of losses has that instead of loss, whose other terms a test loss
// lacks; loss then has a chart of its own. Throughput is per unit: images/s for images_per_second.
std::string PlotPage(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
