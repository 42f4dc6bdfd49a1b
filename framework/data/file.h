// Whole files, read and written at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::data {

// The bytes of `path`. NotFound, or Unavailable where reading fails, with the path and the system's reason.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `bytes` beside `path` and renames the result to it, so that a reader sees the former file or the whole new
// one.
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace belfry::data
