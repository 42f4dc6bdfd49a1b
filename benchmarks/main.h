// The main function of a benchmark.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace belfry::benchmarks {

// Parses the flags, for whose --help `usage` says what the program does, calls `run`, and prints its error, if there is
// one, to standard error. Returns the exit status.
int RunBenchmark(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::Status()> run);

}  // namespace belfry::benchmarks
