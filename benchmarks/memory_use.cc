#include "benchmarks/memory_use.h"

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"

namespace belfry::benchmarks {
namespace {

// The number of bytes in a line such as "RssAnon:    12345 kB".
absl::StatusOr<int64_t> Bytes(absl::string_view status, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    line = absl::StripAsciiWhitespace(line);
    int64_t kibibytes = 0;
    if (absl::ConsumeSuffix(&line, " kB") && absl::SimpleAtoi(line, &kibibytes)) return kibibytes * 1024;
  }
  return absl::DataLossError(absl::StrCat("/proc/self/status has no line \"", key, " <number> kB\""));
}

}  // namespace

absl::StatusOr<MemoryUse> ParseMemoryUse(absl::string_view status) {
  MemoryUse use;
  ASSIGN_OR_RETURN(use.anonymous_bytes, Bytes(status, "RssAnon:"));
  ASSIGN_OR_RETURN(const int64_t peak, Bytes(status, "VmHWM:"));
  ASSIGN_OR_RETURN(const int64_t files, Bytes(status, "RssFile:"));
  use.peak_bytes = peak - files;
  return use;
}

absl::StatusOr<MemoryUse> ReadMemoryUse() {
  std::ifstream file("/proc/self/status");
  return ParseMemoryUse(std::string(std::istreambuf_iterator<char>(file), {}));
}

absl::Status ForgetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file ? absl::OkStatus() : absl::UnavailableError("/proc/self/clear_refs cannot be written");
}

}  // namespace belfry::benchmarks
