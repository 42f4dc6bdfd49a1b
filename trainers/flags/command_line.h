// The command line of a program: parsing, checking and its exit status. Each group of flags is a library of its own
// (device_flags.h and so on); a program has the flags of the libraries that it links.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::trainers {

// Parses the flags and returns the positional arguments. --help and -h print `usage` and the program's flags, --version
// the build, and end the program with status 0, or 1 if they cannot be written; an unknown flag is an error and ends it
// with status 1.
std::vector<std::string> ParseFlags(int argc, char** argv, absl::string_view usage);
// The same for a program without positional arguments: one is an error and exits with status 2.
void ParseCommandLine(int argc, char** argv, absl::string_view usage);

// InvalidArgument unless every one of `flags` has its default value; `context` names what they do not apply to. For
// flags that exclude one another.
absl::Status RejectFlags(absl::Span<const absl::string_view> flags, absl::string_view context);
// InvalidArgument unless low <= value <= high.
absl::Status CheckFlag(absl::string_view flag, int64_t value, int64_t low, int64_t high);
// The same for a number that is finite and at least 0.
absl::Status CheckAtLeast0(absl::string_view flag, double value);
// The same for one that is at least 0 and below 1.
absl::Status CheckBelow1(absl::string_view flag, double value);
// InvalidArgument, with all choices, unless the value is one of them; `plural` is what they are called: "schedules".
absl::Status CheckChoice(absl::string_view flag, absl::string_view value, absl::string_view plural,
                         absl::Span<const absl::string_view> choices);
// InvalidArgument unless the rate is finite and above 0.
absl::Status CheckLearningRate(double rate);
// Creates the directory that `flag` names, unless it exists or is empty. Unavailable names the flag.
absl::Status MakeDirectory(absl::string_view flag, const std::string& directory);
// InvalidArgument if the flag's file cannot be written whatever it holds, or would replace one of `inputs`. For
// messages: `what` is to be written, "the page", and `input` is what one of the inputs is, "the metrics file of a run".
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, absl::string_view what,
                             absl::Span<const std::string> inputs, absl::string_view input);

// The main function of a program: returns what `run`, which begins with the command line, returns. Standard input,
// output and error that are closed are opened on /dev/null first. An exception of a
// library, such as std::bad_alloc, is printed as an error. Writing beyond the limit on file sizes (ulimit -f) is an
// error of the write and does not end the program.
int RunProgram(absl::FunctionRef<int()> run);

// The same for a program without positional arguments: parses the command line, and returns the exit status of `run`.
int RunProgram(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::Status()> run);

// The exit status of main; prints an error to standard error. It is one if standard output could not be written.
int ExitStatus(const absl::Status& status);
// The same for a run that a signal may have ended (0: none): 128 + signal, as if it had killed the program,
// so 142 for a time limit (StopSignals).
int ExitStatus(const absl::StatusOr<int>& signal);

}  // namespace belfry::trainers
