// Memory use of this process, from Linux's /proc (proc(5)).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::benchmarks {

// Excludes file pages: a framework's libraries are loaded on demand and are not part of the memory that training takes.
struct MemoryUse {
  int64_t anonymous_bytes = 0;  // RssAnon: now
  int64_t peak_bytes = 0;       // VmHWM, the most since the process began or since ForgetPeak, less the current RssFile
};
// Parses the text of /proc/self/status. DataLoss: one of the three lines is missing.
absl::StatusOr<MemoryUse> ParseMemoryUse(absl::string_view status);
absl::StatusOr<MemoryUse> ReadMemoryUse();
// Makes the current resident size the peak. Unavailable if the kernel does not allow it.
absl::Status ForgetPeak();

}  // namespace belfry::benchmarks
