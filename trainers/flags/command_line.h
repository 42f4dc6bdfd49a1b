// How the programs read their command lines and end.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

// Reads the flags, and returns the arguments that are none. --help prints `usage` and the flags of the trainers that
// the program has, and ends it; so does an unknown flag, with an error.
std::vector<std::string> ParseFlags(int argc, char** argv, absl::string_view usage);

// The end of main: prints an error to standard error and returns the exit status.
int ExitStatus(const absl::Status& status);
// The same of a run that a signal may have ended, 0 if none: 128 and its number, as if it had killed the program.
int ExitStatus(const absl::StatusOr<int>& signal);

}  // namespace belfry::trainers
