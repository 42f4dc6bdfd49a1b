// A run's metrics (trainers/loop/metrics.h), thinned out to what a plot can show: any number of lines in bounded
// memory.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

// The values at some neighbouring steps, which a plot shows as one.
struct Column {
  int64_t first_step = 0, last_step = 0;
  int64_t count = 0;  // of finite values; 0: a gap, and none of the following mean anything
  double sum = 0, last = 0;
  double min = 0, max = 0;
  int64_t min_step = 0, max_step = 0;

  double mean() const { return sum / static_cast<double>(count); }
  // Takes in what follows this one.
  void Append(const Column& next);
};

// One key of a run, as at most kMaxColumns columns: exact while it has no more steps, and with columns of 2, 4, 8 ...
// steps when it has. A value.
class Curve {
 public:
  static constexpr size_t kMaxColumns = 1024;

  // A value that is not finite leaves a gap. REQUIRES: 0 <= step, and no smaller than the last one.
  void Add(int64_t step, double value);
  // Forgets what was added for `step` and later, up to the width of a column.
  void DropFrom(int64_t step);
  // Merges columns until each has at least `width` steps.
  void Coarsen(int64_t width);

  // Steps that a column stands for: a power of two. A column's number is its steps divided by it, rounded down.
  int64_t width() const { return int64_t{1} << shift_; }
  const std::map<int64_t, Column>& columns() const { return columns_; }
  // All columns that hold values as one; its count is 0 if there are none.
  Column Total() const;

 private:
  void Double();

  int shift_ = 0;
  std::map<int64_t, Column> columns_;
};

struct RunMetrics {
  std::string name;
  int64_t lines = 0;                    // that hold a step
  int64_t last_step = 0;                // 0 if there are none
  std::map<std::string, Curve> curves;  // by key
};

// Reads lines {"step": 10, "loss": 2.1, ...}. null, NaN and infinities leave gaps; what is neither number nor null is
// passed over, and so are blank lines. What a run leaves that is being written, or was killed, is no error: a last line
// without its end, or a line that breaks off where the next one begins. Where a step is smaller than the one before, as
// when a run goes on from a checkpoint, what was read from that step on is dropped. InvalidArgument begins with
// name:line: no JSON object, no "step" or one that is no whole number from 0 to 2^53, a line of more than 1 MiB, more
// than 256 keys.
absl::StatusOr<RunMetrics> ParseRunMetrics(std::istream& in, absl::string_view name);

// That of a file, or of metrics.jsonl in a directory. The run is called after the directory, or after the file if it is
// not called metrics.jsonl. Errors: the above, NotFound, Unavailable, with the path.
absl::StatusOr<RunMetrics> ReadRunMetrics(const std::string& path);

}  // namespace belfry::trainers
