// The compiler: from a graph to a plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compile_options.h"
#include "framework/compiler/kernels.h"
#include "framework/compiler/plan.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// A plan, and the kernels that were made to learn their workspace sizes: by node, empty where a node has none. A kernel
// is run by one thread at a time, so a second Executable of the plan makes its own (MakeKernels).
struct CompiledPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<Kernel> kernels;
};

// Compiles the part of `graph` that `request` asks for. `devices_by_node` are Placement::device.
absl::StatusOr<CompiledPlan> Compile(const Graph& graph, const ProgramRequest& request, const DeviceSet& devices,
                                     const std::vector<int>& devices_by_node, const CompileOptions& options);

// The program, one node a line, with device, shapes and inputs; and as Graphviz.
std::string ProgramToText(const Program& program, const DeviceSet& devices);
std::string ProgramToDot(const Program& program, const DeviceSet& devices);

}  // namespace belfry
