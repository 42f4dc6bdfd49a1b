// What a plan costs, before it runs.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/compiler/memory_report.h"
#include "framework/compiler/plan.h"

namespace belfry {

// "float32[128,10]".
std::string SpecText(const TensorSpec& spec);

// True for what Gradients() adds: below a scope "gradients", or "gradients_<n>".
bool IsBackward(absl::string_view node_name);

// The floating-point operations of a node: OpDef::flops, or one for each element of its largest input or output; 0 for
// what has no kernel, and for copies and transfers.
double FlopsOf(const Program& program, const ProgramNode& node);

// The bytes that one tower gives to a collective.
size_t CollectiveBytes(const ProgramNode& node);

// Nodes by index, in order: the chain of dependencies with the most floating-point operations. No number of devices
// makes a step shorter than that.
std::vector<int> CriticalPath(const Program& program);

// For a person: memory of each device, ops and their floating-point operations, transfers and collectives with bytes,
// the critical path.
std::string ExplainPlan(const Plan& plan, const std::vector<DeviceMemoryReport>& memory, const DeviceSet& devices);

}  // namespace belfry
