// Analysis of plans and of traced steps: where their time and memory went.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/runtime/step_trace.h"

namespace belfry::benchmarks {

// One node of a plan, with the cost of its kernel.
struct NodeTime {
  int node = 0;        // index into Plan::program
  double seconds = 0;  // median over the steps
  double flops = 0;    // FlopsOf
  double bytes = 0;    // LeastBytes
};
// The nodes that run on a compute stream, in the order of their first span.
std::vector<NodeTime> NodeTimes(const Plan& plan, absl::Span<const StepTrace> steps);

// Seconds of a step: medians over the steps, each the mean over the devices that compute.
struct StepParts {
  double step = 0;
  double compute = 0;    // kernels
  double averaging = 0;  // collectives and transfers
  double exposed = 0;    // averaging while the device computed nothing
};
StepParts PartsOf(const Plan& plan, absl::Span<const StepTrace> steps);

// "Conv2D 41%, MatMul 12%, ...": the `count` op types that took longest, with their shares of the time of all kernels.
std::string Split(const Plan& plan, absl::Span<const NodeTime> times, int count);

// Bytes that the kernel of a node must read and write at least, if none of its operands is in a cache and each is read
// once: of rows that are gathered only those, and of a variable that is updated both ways.
double LeastBytes(const Program& program, const ProgramNode& node);

// The most bytes of `device`'s arena in use at one moment: a lower bound for any arena with the same order of nodes.
size_t LeastArena(const MemoryPlan& memory, int device);

// Floating-point operations of a step, over all devices.
double FlopsOfStep(const Plan& plan);

}  // namespace belfry::benchmarks
