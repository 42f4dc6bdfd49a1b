// Reports of traced steps: spans for a trace file, and a table of times.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "framework/graph/node.h"
#include "framework/io/trace_file.h"
#include "framework/runtime/step_trace.h"

namespace belfry {

// The layer that a node belongs to: its name scope within its tower, such as "conv1"; its own name if it stands in
// none. A gradient belongs to the layer of its forward node, an update to that of its variable (Node::computed_for).
std::string LayerOf(const Node& node);

// Writes traced steps of one plan to a trace file: a row per stream, with spans for kernels (by node path), transfers
// and collectives (with bytes and bandwidth), and waits.
class TraceWriter {
 public:
  TraceWriter(const Plan& plan, const DeviceSet& devices, io::TraceFile& file);
  void AddStep(int64_t step, const StepTrace& trace);

 private:
  const Plan& plan_;
  const DeviceSet& devices_;
  io::TraceFile& file_;
  std::vector<int> rows_;  // by stream
};

// A table of where the time of a plan's steps went: by op type, by layer, by stream with its idle share, and the share
// of communication that overlapped computation on the device.
std::string TraceTable(const Plan& plan, const DeviceSet& devices, absl::Span<const StepTrace> steps);

}  // namespace belfry
