// A page that shows how training runs went.
#pragma once

#include <string>
#include <vector>

#include "trainers/plots/run_metrics.h"

namespace belfry::trainers {

// One HTML page with everything inside: a summary table and charts of loss (linear and logarithmic), accuracy, learning
// rate, throughput, each other key, and, for each run with keys seconds_*, where its time went. Runs lie over each
// other. It follows the reader's choice of light or dark, needs no network, and JavaScript only for the values under
// the pointer. Every element is closed, so that an XML parser reads it, too.
std::string PlotPage(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
