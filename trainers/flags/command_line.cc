#include "trainers/flags/command_line.h"

#include <cstdio>
#include <cstdlib>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace belfry::trainers {

std::vector<std::string> ParseFlags(int argc, char** argv, absl::string_view usage) {
  absl::SetProgramUsageMessage(absl::StrCat(absl::StripTrailingAsciiWhitespace(usage), "\n"));
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) { return absl::StrContains(file, "trainers/"); };
  config.normalize_filename = [](absl::string_view file) {
    const size_t folder = file.rfind("trainers/");
    return std::string(folder == absl::string_view::npos ? file : file.substr(folder));
  };
  absl::SetFlagsUsageConfig(config);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  return std::vector<std::string>(rest.begin() + 1, rest.end());
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "Error: %s\n", status.ToString().c_str());
  return EXIT_FAILURE;
}

int ExitStatus(const absl::StatusOr<int>& signal) {
  return signal.ok() && *signal != 0 ? 128 + *signal : ExitStatus(signal.status());
}

}  // namespace belfry::trainers
