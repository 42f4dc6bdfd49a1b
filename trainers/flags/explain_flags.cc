#include "trainers/flags/explain_flags.h"

#include <cstdint>

#include "absl/flags/flag.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(bool, explain, false,
          "Compile the training step, print its cost on each device (memory, operations, transfers, critical path) and "
          "the largest batch that fits, and exit without training.");
ABSL_FLAG(int64_t, memory_limit, 0,
          "Memory in MiB that all steps of the run together may use on a device; a run that needs more is refused "
          "before its first step. 0: the memory of the device.");

namespace belfry::trainers {

absl::StatusOr<std::optional<size_t>> MemoryLimit() {
  const int64_t limit = absl::GetFlag(FLAGS_memory_limit);
  RETURN_IF_ERROR(CheckFlag("memory_limit", limit, 0, int64_t{1} << 40));
  if (limit == 0) return std::nullopt;
  return static_cast<size_t>(limit) << 20;
}

}  // namespace belfry::trainers
