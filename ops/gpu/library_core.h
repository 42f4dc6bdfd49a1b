// The part of a kernel that a library computes. Internal.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/device/device.h"

namespace belfry::ops {

// Enqueues the work on operands in device memory, in the order given by the function that made the core. The workspace
// is aligned to kLibraryAlignment. Not thread-safe.
struct LibraryCore {
  std::function<absl::Status(Stream& stream, absl::Span<void* const> operands, void* workspace)> run;
  size_t workspace_bytes = 0;
};

}  // namespace belfry::ops
