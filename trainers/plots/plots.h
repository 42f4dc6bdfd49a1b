// Plots: the metrics files of training runs (trainers/callbacks/metrics.h) as a page with charts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

struct RunMetrics {
  struct Point {
    int64_t step = 0;
    double value = 0;  // NaN: a gap
  };
  std::string name;
  int64_t lines = 0;                                 // with a step
  int64_t last_step = 0;                             // 0 if there are none
  bool torn = false;                                 // the last line breaks off, and is left out
  std::map<std::string, std::vector<Point>> curves;  // by key, in order of steps
};

// Parses lines {"step": 10, "loss": 2.1, ...}. null, NaN and infinities leave gaps; values of other types and blank
// lines are skipped. The file of a run that is in progress or was killed is valid: an incomplete last line is ignored,
// and a line that breaks off may be continued by the next one. A step below the previous one, as after a resume,
// replaces what was read from that step on. InvalidArgument, as name:line, for a line that is not a JSON object, a
// "step" that is missing or not a whole number from 0 to 2^53, a line longer than 1 MiB, and more than 256 keys.
absl::StatusOr<RunMetrics> ParseRunMetrics(absl::string_view text, absl::string_view name);

// Reads metrics files, or metrics.jsonl in directories. A run is named after its directory, or after a file that is not
// called metrics.jsonl; files of the same name are called by their paths. Errors: those of ParseRunMetrics and
// io::ReadFile, and FailedPrecondition if there is no line yet, with the path.
absl::StatusOr<std::vector<RunMetrics>> ReadRunMetrics(const std::vector<std::string>& paths);

// A self-contained page, which needs no network, as Chart.js (MIT license) is part of it. `data` is what its script
// (page.html) shows:
//   title, and notes: the heading, and lines of text below it (optional)
//   runs: [{name, last_step}], which the reader can hide; last_step is optional, null shows as "none"
//   table: by heading, an array with a cell or null for each run
//   charts: [{title, x, y, datasets}]; x, y and datasets are options of Chart.js. x is optional: steps. A dataset's
//     `run` (index; none: grey) and `dash` choose how its line looks, `fill` makes it an area, and `faint` a pale line
//     without an entry in the legend. A point is [x, y, text of the tooltip], in a faint line [x, y]; y is null in a
//     gap.
// Without charts, the script makes those, and the table, of the runs' `curves`, as PlotPage says.
std::string Page(const nlohmann::ordered_json& data);

// A page with a summary table and charts of loss (logarithmic or linear), accuracy, learning rate, throughput, every
// other key, and, for each run with keys seconds_*, the shares of its time. Runs share the charts. Where a run logs
// cross_entropy, the chart of losses has that instead of loss, whose other terms a test loss lacks; loss then has a
// chart of its own. Throughput is per unit: images/s for images_per_second. A long curve is thinned out: in its columns
// of 2, 4, 8 ... steps the page shows the mean and the range.
std::string PlotPage(const std::vector<RunMetrics>& runs);

}  // namespace belfry::trainers
