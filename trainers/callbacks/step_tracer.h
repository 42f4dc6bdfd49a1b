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
#include "trainers/callbacks/callback.h"

namespace belfry::trainers {

// The steps to trace and the output file.
struct TraceOptions {
  int64_t first = -1, last = -1;  // inclusive; -1: none
  std::string file = {};          // for chrome://tracing and ui.perfetto.dev; empty: only the table
};
// "100-110", or "100". InvalidArgument for anything else.
absl::StatusOr<TraceOptions> ParseTrace(absl::string_view steps);

// Collects the traces of steps, with what the training loop did meanwhile. After the last of them, or at the end of the
// run, writes the file and prints the table of TraceTable. Steps whose feed shapes differ from those of the first are
// left out.
class StepTracer final : public Callback {
 public:
  StepTracer(const DeviceSet& devices, TraceOptions options);
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEvaluation(TrainingState& state) override;
  absl::Status OnSave(TrainingState& state) override;
  absl::Status OnEnd(TrainingState& state) override;
  bool WantsTrace(int64_t step) override { return options_.first <= step && step <= options_.last; }

 private:
  void AddHostSpan(absl::string_view name, absl::Time begin, absl::Time end);
  absl::Status Finish(const TrainingState& state);

  const DeviceSet& devices_;
  const TraceOptions options_;
  bool finished_ = false;
  io::TraceFile file_;
  int host_row_ = 0;
  const PreparedStep* prepared_ = nullptr;
  std::unique_ptr<TraceWriter> writer_;
  std::vector<StepTrace> steps_;
};

}  // namespace belfry::trainers
