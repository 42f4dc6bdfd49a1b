// Reports of traced steps: spans for a trace file, and a table of times.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/io/trace_file.h"
#include "framework/runtime/step_trace.h"

namespace belfry {

// The layer that a node's name belongs to: the path around it without the tower, and for what is computed backwards or
// updated, that of the forward node. "tower_1/gradients/conv1/Conv2D_grad/Conv2DBackpropInput" and
// "tower_0/conv1/Relu" are of "conv1", and so is "update_conv1/weights".
std::string LayerOf(absl::string_view node_name);

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
