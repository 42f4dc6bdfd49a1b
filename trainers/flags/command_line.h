// The main function of a program, and checks of the files that its flags name.
#pragma once

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/flags/flags.h"

namespace belfry::trainers {

// "65536", "512K", "4M": a number of bytes from 1 to 1 GiB; 0 for "". InvalidArgument: anything else.
absl::StatusOr<size_t> ParseBytes(absl::string_view flag, absl::string_view text);
// Creates the directory that `flag` names, unless it exists or is empty. Unavailable names the flag.
absl::Status MakeDirectory(absl::string_view flag, const std::string& directory);
// InvalidArgument if the flag's file cannot be written whatever it holds. `what` is to be written, for messages: "the
// page".
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, absl::string_view what);

// The main function of a program: parses the command line into `flags`, calls `run`, and returns the exit status that
// it returns. --help and --version print their text and end with status 0, or 1 if it cannot be written. An error, of
// the command line too, is printed to standard error, with status 1; so is an exception of a library, such as
// std::bad_alloc, and standard output that could not be written. Standard input, output and error that are closed are
// opened on /dev/null first. Writing beyond the limit on file sizes (ulimit -f) is an error of the write and does not
// end the program.
int RunProgram(int argc, char** argv, absl::string_view usage, Flags& flags,
               absl::FunctionRef<absl::StatusOr<int>()> run);

}  // namespace belfry::trainers
