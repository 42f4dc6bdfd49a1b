// Error messages of CheckNumerics.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/kernel.h"

namespace belfry::ops {

// Names the tensor that a node checks.
inline std::string CheckedTensor(const KernelSpec& spec) {
  const std::string& message = spec.attrs.String("message");
  return absl::StrCat(message, message.empty() ? "" : ": ", "the tensor of '", spec.name, "'");
}

inline absl::Status NumericsError(const std::string& tensor, uint64_t nans, uint64_t infinities, int64_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat(tensor, " had ", nans, " NaN and ", infinities, " infinite values among ", elements, " elements"));
}

}  // namespace belfry::ops
