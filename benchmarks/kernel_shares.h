// Kernels of a plan beside the limits of the machine.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "benchmarks/report.h"
#include "framework/base/dtype.h"
#include "framework/runtime/step_trace.h"

namespace belfry::benchmarks {

// Measured rates of a number of threads.
struct Limits {
  DType dtype = DType::kFloat32;
  double peak = 0;   // multiply-adds of that type, in operations per second (FmaPeak, BFloat16Peak)
  double triad = 0;  // memory, in bytes per second (Triad)
};
// The peak of any other type than bfloat16 is float32's.
Limits MeasureLimits(int threads, DType dtype = DType::kFloat32);
// A clause for the title of a table.
std::string Text(const Limits& limits);

// Adds a row for each kind of kernel, by op and shapes, that takes at least `least` of the time of all: medians over
// the steps, and shares of the limits. A kernel whose operands fit into a cache may be faster than the triad, and a
// Winograd convolution faster than the peak: its operations are those of the sum that defines it.
void AddKernels(const std::string& model, const Plan& plan, absl::Span<const StepTrace> steps, const Limits& limits,
                double least, Report& report);

}  // namespace belfry::benchmarks
