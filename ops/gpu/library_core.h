// What a library does for a kernel. Internal.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/device/device.h"

namespace belfry::ops {

// Enqueues the work on operands in device memory, in the order of the function that made it, and a workspace aligned to
// kLibraryAlignment. One thread at a time.
struct LibraryCore {
  std::function<absl::Status(Stream& stream, absl::Span<void* const> operands, void* workspace)> run;
  size_t workspace_bytes = 0;
};

}  // namespace belfry::ops
