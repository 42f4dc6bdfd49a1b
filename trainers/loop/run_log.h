// What a run tells programs: its metrics file, and TensorBoard's event file.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/io/summary_writer.h"
#include "framework/runtime/session.h"
#include "trainers/loop/metrics.h"

namespace belfry::trainers {

// The same numbers go to both. Not thread-safe.
class RunLog {
 public:
  // An empty path: no such file. Of a run that goes on at step `first`, what an earlier one wrote of this and later
  // steps is taken out of the metrics file, if that is in the same directory, and TensorBoard is told to drop it.
  static absl::StatusOr<RunLog> Open(const std::string& metrics_file, const std::string& event_directory,
                                     int64_t first);

  bool has_events() const { return events_ != nullptr; }
  // The graph as the session placed it, for TensorBoard's graph page.
  absl::Status WriteGraph(Session& session);
  // A line of the metrics file, {"step": step, ...}, and a scalar "run/<name>" for each value.
  absl::Status Write(int64_t step, absl::Span<const std::pair<absl::string_view, double>> values);
  // What was fetched of ops/summary.h's nodes.
  absl::Status WriteSummaries(int64_t step, absl::Span<const Output> summaries, absl::Span<const Tensor> values);

 private:
  explicit RunLog(MetricsWriter metrics) : metrics_(std::move(metrics)) {}
  MetricsWriter metrics_;
  std::unique_ptr<io::SummaryWriter> events_;
};

}  // namespace belfry::trainers
