// Flags for the cost of a run, which trainers/program/explain.h computes.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"

ABSL_DECLARE_FLAG(bool, explain);

namespace belfry::trainers {

// --memory_limit in bytes; nullopt if it is 0. InvalidArgument if it is negative or too large.
absl::StatusOr<std::optional<size_t>> MemoryLimit();

}  // namespace belfry::trainers
