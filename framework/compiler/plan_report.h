// Reports of what a plan costs, made before it runs.
#pragma once

#include <string>
#include <vector>

#include "framework/compiler/memory_report.h"
#include "framework/compiler/plan.h"

namespace belfry {

// The floating-point operations of a node: OpDef::flops, or one for each element of its largest input or output; 0 for
// a node without a kernel, a copy or a transfer.
double FlopsOf(const Program& program, const ProgramNode& node);

// The bytes that one tower gives to a collective.
size_t CollectiveBytes(const ProgramNode& node);

// The chain of dependencies with the most floating-point operations, as node indices in order. It bounds the time of a
// step for any number of devices.
std::vector<int> CriticalPath(const Program& program);

// For a person: memory of each device, ops and their floating-point operations, transfers and collectives with bytes,
// the critical path.
std::string ExplainPlan(const Plan& plan, const std::vector<DeviceMemoryReport>& memory, const DeviceSet& devices);

}  // namespace belfry
