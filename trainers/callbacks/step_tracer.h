// Traces of a range of steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/io/trace_file.h"
#include "framework/runtime/session.h"
#include "framework/runtime/trace_report.h"

namespace belfry::trainers {

// The steps to trace and the output file.
struct TraceOptions {
  int64_t first = -1, last = -1;  // inclusive; -1: none
  std::string file = {};          // for chrome://tracing and ui.perfetto.dev; empty: only the table
};
// "100-110", or "100". InvalidArgument for anything else.
absl::StatusOr<TraceOptions> ParseTrace(absl::string_view steps);

// Runs steps with tracing and collects their traces. Steps whose feed shapes differ from those of the first are not
// traced. Not thread-safe.
class StepTracer {
 public:
  StepTracer(const DeviceSet& devices, TraceOptions options);

  bool in_range(int64_t step) const { return options_.first <= step && step <= options_.last; }
  bool Wants(int64_t step, const PreparedStep& prepared) const {
    return in_range(step) && (prepared_ == nullptr || prepared_ == &prepared);
  }
  // REQUIRES: Wants(step, prepared).
  absl::Status Run(int64_t step, PreparedStep& prepared, absl::Span<const Tensor> feeds);
  // Adds an activity of the training loop during these steps.
  void AddHostSpan(absl::string_view name, absl::Time begin, absl::Time end);
  // Writes the file. Returns the table of TraceTable and the path of the file.
  absl::StatusOr<std::string> Finish();

 private:
  const DeviceSet& devices_;
  const TraceOptions options_;
  io::TraceFile file_;
  int host_row_ = 0;
  const PreparedStep* prepared_ = nullptr;
  std::unique_ptr<TraceWriter> writer_;
  std::vector<StepTrace> steps_;
};

}  // namespace belfry::trainers
