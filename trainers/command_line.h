// How the programs read their command lines and end.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

// Reads the flags, and returns the arguments that are none. --help prints `usage` and the flags of the trainers that
// the program has, and ends it; so does an unknown flag, with an error.
std::vector<std::string> ParseFlags(int argc, char** argv, absl::string_view usage);

// The exit status of a program that a signal has ended: 128 and its number.
int SignalStatus(int signal);

// The end of main: prints an error to standard error and returns the exit status.
int ExitStatus(const absl::Status& status);

}  // namespace belfry::trainers
