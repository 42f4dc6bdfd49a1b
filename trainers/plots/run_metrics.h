// The metrics of a run (trainers/callbacks/metrics.h), reduced to the resolution of a plot: bounded memory for any
// number of lines.
#pragma once

#include <cmath>
#include <cstdint>
#include <istream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

// The values of adjacent steps, plotted as one.
struct Column {
  int64_t first_step = 0, last_step = 0;
  int64_t count = 0;  // of finite values; 0: a gap, whose mean, min and max are NaN
  double sum = 0, last = 0;
  double min = NAN, max = NAN;
  int64_t min_step = 0, max_step = 0;

  double mean() const { return count == 0 ? NAN : sum / static_cast<double>(count); }
  // Adds a column of the same or of later steps.
  void Append(const Column& next);
};

// One key of a run, in at most kMaxColumns columns: one step each as long as they suffice, then 2, 4, 8 ... steps each.
class Curve {
 public:
  static constexpr size_t kMaxColumns = 1024;

  // A value that is not finite leaves a gap. REQUIRES: step >= 0 and not below the last one.
  void Add(int64_t step, double value);
  // Drops `step` and later ones, up to the width of a column.
  void DropFrom(int64_t step);
  // Merges columns until each has at least `width` steps.
  void Coarsen(int64_t width);
  // Adds another curve's values, in columns of the greater width of both.
  void Merge(Curve other);

  // Steps per column: a power of two.
  int64_t width() const { return int64_t{1} << shift_; }
  // By number: step / width().
  const std::map<int64_t, Column>& columns() const { return columns_; }
  // Whether the columns before and after are gaps or missing. REQUIRES: a column has the number.
  bool IsLone(int64_t number) const;
  // The sum of the columns with values among those numbered `first` to `last`; its count is 0 if there are none.
  Column Total(int64_t first = 0, int64_t last = std::numeric_limits<int64_t>::max()) const;

 private:
  void Double();

  int shift_ = 0;
  std::map<int64_t, Column> columns_;
};

struct RunMetrics {
  std::string name;
  int64_t lines = 0;                    // with a step
  int64_t last_step = 0;                // 0 if there are none
  bool torn = false;                    // the last line breaks off, and is left out
  std::map<std::string, Curve> curves;  // by key

  // The sum of the curves whose keys start with `prefix`.
  Curve Sum(absl::string_view prefix) const;
};

// Reads lines {"step": 10, "loss": 2.1, ...}. null, NaN and infinities leave gaps; values of other types and blank
// lines are skipped. The file of a run that is in progress or was killed is valid: an incomplete last line is ignored,
// and a line that breaks off may be continued by the next one. A step below the previous one, as after a resume,
// replaces what was read from that step on. InvalidArgument, as name:line, for a line that is not a JSON object, a
// "step" that is missing or not a whole number from 0 to 2^53, a line longer than 1 MiB, and more than 256 keys.
absl::StatusOr<RunMetrics> ParseRunMetrics(std::istream& in, absl::string_view name);

// Reads a metrics file, or metrics.jsonl in a directory. The run is named after the directory, or after a file that is
// not called metrics.jsonl. Errors: those of ParseRunMetrics; NotFound, Unavailable, and
// FailedPrecondition if there is no line yet, with the path.
absl::StatusOr<RunMetrics> ReadRunMetrics(const std::string& path);

// The same for several runs. Those of the same name are called by their paths.
absl::StatusOr<std::vector<RunMetrics>> ReadRunMetrics(const std::vector<std::string>& paths);

}  // namespace belfry::trainers
