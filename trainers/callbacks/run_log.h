// The machine-readable output of a run: its metrics file and TensorBoard's event file.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/io/summary_writer.h"
#include "framework/runtime/session.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/callbacks/step_records.h"

namespace belfry::trainers {

// Writes the same values to both files. Not thread-safe.
class RunLog {
 public:
  using Values = Figures;

  // An empty path: no such file. What an interrupted run wrote about `start` and later is removed from the metrics
  // file, if it is in `event_directory`, and TensorBoard is told to drop it. TensorBoard drops whole steps, so the
  // figures of the evaluation at the start, which the metrics file keeps, are written for it once more: `evaluation`.
  static absl::StatusOr<RunLog> Open(const std::string& metrics_file, const std::string& event_directory,
                                     const RunStart& start, const Values& evaluation = {});

  bool has_events() const { return events_ != nullptr; }
  // The graph as the session placed it, for TensorBoard's graph page.
  absl::Status WriteGraph(Session& session);
  // Writes a metrics line, {"step": step, ...}, and an event with a scalar "run/<name>" for each value.
  absl::Status Write(int64_t step, const Values& values);
  // Writes the fetched values of the summary nodes of ops/summary.h as an event.
  absl::Status WriteSummaries(int64_t step, absl::Span<const Output> summaries, absl::Span<const Tensor> values);

 private:
  explicit RunLog(MetricsWriter metrics) : metrics_(std::move(metrics)) {}
  absl::Status WriteEvent(int64_t step, const Values& values);

  MetricsWriter metrics_;
  std::unique_ptr<io::SummaryWriter> events_;
};

}  // namespace belfry::trainers
