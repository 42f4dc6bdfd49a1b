#include "trainers/flags/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/io/utf8.h"

namespace belfry::trainers {

namespace {

// The error of a standard output that could not be written, such as a full disk, which would otherwise lose results
// without a word. Prints it.
bool OutputFailed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return false;
  std::fprintf(stderr, "Error: cannot write to standard output: %s\n", std::strerror(errno));
  return true;
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
std::string NameFlags(absl::string_view message, const Flags& flags) {
  const std::pair<std::string, const char*> kAdvice[] = {
      {"a smaller batch", "batch_size"},
      {"more towers", "towers"},
      {"16-bit numbers", "dtype"},
      {"fewer devices", "devices"},
      {"fewer threads of each", "threads_per_device"},
      {"fewer threads that read data", "data_threads"},
      {"the data of then", "data_dir"},
      {"the data of then", "data"},
      {"the data of then", "csv"},
  };
  std::string text(message);
  for (const auto& [advice, flag] : kAdvice) {
    const size_t found = text.find(advice);
    if (found == text.npos || !flags.Has(flag)) continue;
    text.insert(found + advice.size(), absl::StrCat(" (--", flag, ")"));
  }
  return text;
}

// Prints the error, and returns the exit status. Memory may be short.
int PrintError(const absl::Status& status, const Flags& flags) {
  if (!absl::IsResourceExhausted(status)) {
    std::fprintf(stderr, "Error: %s\n", io::Printable(NameFlags(status.ToString(), flags)).c_str());
    return EXIT_FAILURE;
  }
  absl::string_view text = status.message().empty() ? "out of memory, even for a message" : status.message();
  std::string named;
  try {
    named = io::Printable(NameFlags(text, flags));
    text = named;
  } catch (const std::bad_alloc&) {  // without the flags, then
  }
  std::fprintf(stderr, "Error: RESOURCE_EXHAUSTED: %.*s\n", static_cast<int>(text.size()), text.data());
  return EXIT_FAILURE;
}

absl::StatusOr<int> ParseAndRun(int argc, char** argv, absl::string_view usage, Flags& flags,
                                absl::FunctionRef<absl::StatusOr<int>()> run) {
  std::string text;
  RETURN_IF_ERROR(flags.Parse(std::vector<std::string>(argv, argv + argc), usage, text));
  if (text.empty()) return run();
  std::fputs(text.c_str(), stdout);
  return EXIT_SUCCESS;
}

}  // namespace

absl::StatusOr<size_t> ParseBytes(absl::string_view flag, absl::string_view text) {
  constexpr size_t kMost = size_t{1} << 30;
  if (text.empty()) return 0;
  absl::string_view digits = text;
  int shift = 0;
  if (absl::ConsumeSuffix(&digits, "K")) {
    shift = 10;
  } else if (absl::ConsumeSuffix(&digits, "M")) {
    shift = 20;
  }
  size_t number = 0;
  const bool plain = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  if (!plain || !absl::SimpleAtoi(digits, &number) || number < 1 || number > kMost >> shift) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, "=", text, "; expected bytes up to 1024M, such as 65536, 512K or 4M"));
  }
  return number << shift;
}

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, absl::string_view what) {
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

int RunProgram(int argc, char** argv, absl::string_view usage, Flags& flags,
               absl::FunctionRef<absl::StatusOr<int>()> run) {
  OpenStandardDescriptors();
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const absl::StatusOr<int> status = ParseAndRun(argc, argv, usage, flags, run);
    if (!status.ok()) return PrintError(status.status(), flags);
    return OutputFailed() ? EXIT_FAILURE : *status;
  } catch (const std::bad_alloc& error) {
    return PrintError(OutOfMemory("the run", error), flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace belfry::trainers
