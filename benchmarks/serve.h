// One side of a comparison between programs: a process that trains when told to. The protocol is described in
// benchmarks/peers/README.md.
#pragma once

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/training_run.h"

namespace belfry::benchmarks {

// Parses "go SECONDS". InvalidArgument for any other line, or unless SECONDS is positive and at most an hour.
absl::StatusOr<double> ParseGo(absl::string_view line);

// Answers commands of the protocol from `in` on `out` until "quit" or the end of input. `compared` are the numbers that
// other programs must reproduce; `side` is what is timed, and `peak_bytes` returns the peak memory. Errors: theirs, and
// those of ParseGo.
absl::Status AnswerCommands(const std::vector<double>& compared, const Side& side,
                            absl::FunctionRef<absl::StatusOr<int64_t>()> peak_bytes, std::istream& in = std::cin,
                            std::ostream& out = std::cout);
// The peak memory of this process in bytes, less the memory in use at `before`.
absl::StatusOr<int64_t> PeakBeyond(const MemoryUse& before);

// Trains the first steps and prints their losses, warms up, then answers lines from `in` on `out` until "quit" or the
// end of input. `before` is the memory in use before `run` was created; only memory beyond it is reported.
absl::Status Serve(TrainingRun& run, const MemoryUse& before, std::istream& in = std::cin,
                   std::ostream& out = std::cout);

}  // namespace belfry::benchmarks
