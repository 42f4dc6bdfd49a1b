// Some steps of a run, looked at closely.
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

// Which steps are traced, and where to.
struct TraceOptions {
  int64_t first = -1, last = -1;  // inclusive; -1: none
  std::string file;               // for chrome://tracing and ui.perfetto.dev; empty: the table alone
};
// "100-110", or "100". InvalidArgument for anything else.
absl::StatusOr<TraceOptions> ParseTrace(absl::string_view steps);

// Runs steps traced, and collects what they tell. Steps of other feed shapes than those of the first one are not part
// of it. One thread at a time.
class StepTracer {
 public:
  StepTracer(const DeviceSet& devices, TraceOptions options);

  bool in_range(int64_t step) const { return options_.first <= step && step <= options_.last; }
  bool Wants(int64_t step, const PreparedStep& prepared) const {
    return in_range(step) && (prepared_ == nullptr || prepared_ == &prepared);
  }
  // REQUIRES: Wants(step, prepared).
  absl::Status Run(int64_t step, PreparedStep& prepared, absl::Span<const Tensor> feeds);
  // Something that the training loop did in these steps.
  void AddHostSpan(absl::string_view name, absl::Time begin, absl::Time end);
  // Writes the file. The table of TraceTable, and where the file is.
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
