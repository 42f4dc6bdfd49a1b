// What this process holds of the machine's memory, by Linux's /proc (proc(5)).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::benchmarks {

// Without pages of files: a framework's libraries are loaded as they are used, and are no part of what training takes.
struct MemoryUse {
  int64_t anonymous_bytes = 0;  // RssAnon: now
  int64_t peak_bytes = 0;       // VmHWM, the most since the process began or since ForgetPeak, less RssFile now
};
// Of the text of /proc/self/status. DataLoss: it lacks one of the three.
absl::StatusOr<MemoryUse> ParseMemoryUse(absl::string_view status);
absl::StatusOr<MemoryUse> ReadMemoryUse();
// Makes what is resident now the peak. Unavailable where the kernel does not allow it.
absl::Status ForgetPeak();

}  // namespace belfry::benchmarks
