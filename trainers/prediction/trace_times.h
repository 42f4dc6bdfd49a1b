// The times of kernels in a trace file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/prediction/step_model.h"

namespace belfry {

// Medians of the spans of kernels in the text of a trace file (framework/io/trace_file.h), such as trace.json of
// --trace, by the names of nodes. InvalidArgument: it is none, or has no span of a kernel.
absl::StatusOr<KernelTimes> ParseKernelTimes(absl::string_view trace);
// The same of a file. Errors name it.
absl::StatusOr<KernelTimes> ReadKernelTimes(const std::string& path);

}  // namespace belfry
