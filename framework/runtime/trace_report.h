// What traced steps tell.
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

// Adds a row for each stream of the plan, which later steps use again, and their spans: kernels by their path,
// transfers and collectives with bytes and bandwidth, waits.
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

// Of steps of one plan, where their time went: by op type, by layer, by stream with its idle share, and how much of the
// communication had the device compute beside it.
std::string TraceTable(const Plan& plan, const DeviceSet& devices, absl::Span<const StepTrace> steps);

}  // namespace belfry
