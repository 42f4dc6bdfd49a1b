#include "trainers/flags/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/check.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/version.h"

namespace belfry::trainers {

namespace {

// The error of a standard output that could not be written, such as a full disk, which would otherwise lose results
// without a word. Prints it.
bool OutputFailed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return false;
  std::fprintf(stderr, "Error: cannot write to standard output: %s\n", std::strerror(errno));
  return true;
}

// True if an argument asks for a text of Abseil's: --help, --helpfull, --version ...
bool AsksForText(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "-")) return false;
  absl::ConsumePrefix(&argument, "-");
  const absl::string_view name = argument.substr(0, argument.find('='));
  constexpr absl::string_view kNames[] = {"help",      "helpfull", "helpshort", "helppackage",
                                          "helpmatch", "helpon",   "version"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Abseil ends the program with status 1 after printing a help that was asked for, and with 0 after the version even if
// it could not be printed. True while it may do so.
bool& EndsByOutput() {
  static bool ends = false;
  return ends;
}
void EndByOutput() {
  if (EndsByOutput()) return;
  EndsByOutput() = true;
  std::atexit([] {
    if (EndsByOutput()) std::_Exit(OutputFailed() ? EXIT_FAILURE : EXIT_SUCCESS);
  });
}

// A file that is opened gets the lowest free descriptor, so with standard output closed the first one would receive
// what is printed.
void OpenStandardDescriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    ::open("/dev/null", O_RDWR);  // the lower ones are open, so it gets this one
  }
}

// The message of an error of the library, in which flags of this program follow the advice that they serve: "use a
// smaller batch (--batch_size)".
std::string NameFlags(absl::string_view message) {
  const std::pair<std::string, const char*> kAdvice[] = {
      {"a smaller batch", "batch_size"},
      {"more towers", "towers"},
      {"16-bit numbers", "dtype"},
      {"fewer devices", "devices"},
      {"fewer threads of each", "threads_per_device"},
      {"fewer threads that read data", "data_threads"},
  };
  std::string text(message);
  for (const auto& [advice, flag] : kAdvice) {
    const size_t found = text.find(advice);
    if (found == text.npos || absl::FindCommandLineFlag(flag) == nullptr) continue;
    text.insert(found + advice.size(), absl::StrCat(" (--", flag, ")"));
  }
  return text;
}

}  // namespace

std::vector<std::string> ParseFlags(int argc, char** argv, absl::string_view usage) {
  absl::SetProgramUsageMessage(absl::StrCat(absl::StripTrailingAsciiWhitespace(usage), "\n"));
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) { return absl::StrContains(file, "trainers/"); };
  config.normalize_filename = [](absl::string_view file) {
    const size_t folder = file.rfind("trainers/");
    return std::string(folder == absl::string_view::npos ? file : file.substr(folder));
  };
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  config.version_string = [program] { return absl::StrCat(program, ", Belfry ", kBuild, "\n"); };
  absl::SetFlagsUsageConfig(config);
  std::vector<char*> arguments(argv, argv + argc);
  std::string help = "--help";
  for (char*& argument : arguments) {
    const absl::string_view text = argument;
    const bool short_help = text == "-h" || text == "-help";
    if (short_help || AsksForText(text)) EndByOutput();
    if (short_help) argument = help.data();
  }
  const std::vector<char*> rest = absl::ParseCommandLine(argc, arguments.data());
  EndsByOutput() = false;
  return std::vector<std::string>(rest.begin() + 1, rest.end());
}

void ParseCommandLine(int argc, char** argv, absl::string_view usage) {
  const std::vector<std::string> rest = ParseFlags(argc, argv, usage);
  if (rest.empty()) return;
  std::fprintf(stderr, "%s: unexpected argument '%s'; flags are --name=value, --help lists them\n", argv[0],
               rest[0].c_str());
  std::exit(2);
}

absl::Status RejectFlags(absl::Span<const absl::string_view> flags, absl::string_view context) {
  for (absl::string_view name : flags) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    BELFRY_CHECK(flag != nullptr);
    if (flag->CurrentValue() == flag->DefaultValue()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", flag->CurrentValue(), " does not apply to ",
                                                   context, "; remove it, or give its default, --", name, "=",
                                                   flag->DefaultValue()));
  }
  return absl::OkStatus();
}

absl::Status CheckFlag(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (low <= value && value <= high) return absl::OkStatus();
  const bool bounded = high < std::numeric_limits<int64_t>::max();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", value, " must be ", bounded ? absl::StrCat(low, " to ", high) : absl::StrCat("at least ", low)));
}

absl::Status CheckAtLeast0(absl::string_view flag, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " must be at least 0"));
}

absl::Status CheckBelow1(absl::string_view flag, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " must be at least 0 and below 1"));
}

absl::Status CheckChoice(absl::string_view flag, absl::string_view value, absl::string_view plural,
                         absl::Span<const absl::string_view> choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  const absl::Span<const absl::string_view> first = choices.subspan(0, choices.size() - 1);
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " is unknown; the ", plural, " are ",
                                                 absl::StrJoin(first, ", "), " and ", choices.back()));
}

absl::Status CheckLearningRate(double rate) {
  if (std::isfinite(rate) && rate > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--learning_rate=", rate, " must be a number above 0"));
}

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, absl::string_view what,
                             absl::Span<const std::string> inputs, absl::string_view input) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::string problem;
  if (path.empty()) {
    problem = absl::StrCat(" is empty; name ", what, " to write");
  } else if (std::filesystem::is_directory(path, error)) {
    problem = " is a folder; name a file in it";
  } else if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    problem = absl::StrCat(": there is no folder ", folder.string());
  }
  for (const std::string& other : inputs) {
    if (std::filesystem::equivalent(other, path, error)) problem = absl::StrCat(" is ", input, "; name another");
  }
  if (problem.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", path, problem));
}

absl::Status MakeDirectory(absl::string_view flag, const std::string& directory) {
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) return absl::OkStatus();
  std::filesystem::create_directories(directory, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("Cannot create --", flag, "=", directory, ": ", error.message()));
}

int RunProgram(absl::FunctionRef<int()> run) {
  OpenStandardDescriptors();
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run();
  } catch (const std::bad_alloc& error) {
    return ExitStatus(OutOfMemory("the run", error));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

int RunProgram(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::Status()> run) {
  return RunProgram([&] {
    ParseCommandLine(argc, argv, usage);
    return ExitStatus(run());
  });
}

int ExitStatus(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    // ToString() would need memory.
    absl::string_view text = status.message().empty() ? "out of memory, even for a message" : status.message();
    std::string named;
    try {
      named = NameFlags(text);
      text = named;
    } catch (const std::bad_alloc&) {  // without the flags, then
    }
    std::fprintf(stderr, "Error: RESOURCE_EXHAUSTED: %.*s\n", static_cast<int>(text.size()), text.data());
    return EXIT_FAILURE;
  }
  if (!status.ok()) {
    std::fprintf(stderr, "Error: %s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return OutputFailed() ? EXIT_FAILURE : EXIT_SUCCESS;
}

int ExitStatus(const absl::StatusOr<int>& signal) {
  return signal.ok() && *signal != 0 ? 128 + *signal : ExitStatus(signal.status());
}

}  // namespace belfry::trainers
