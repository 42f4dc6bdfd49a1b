// A side of a comparison between programs: a process that trains when it is told to. benchmarks/peers/README.md has the
// protocol.
#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/training_run.h"

namespace belfry::benchmarks {

// The seconds of "go SECONDS". InvalidArgument: another line, or no positive number of seconds up to an hour.
absl::StatusOr<double> ParseGo(absl::string_view line);

// Trains the first steps and prints their losses, warms up, then answers lines of `in` on `out` until "quit" or its
// end. `before`: from before `run` was made, so that memory counts from there.
absl::Status Serve(TrainingRun& run, const MemoryUse& before, std::istream& in, std::ostream& out);

}  // namespace belfry::benchmarks
