// Processor information from /proc/cpuinfo. Thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace belfry {

// The value of a field of the first processor in /proc/cpuinfo, such as "model name" or "flags". Empty if there is
// none: architectures other than x86-64 have few of these. `root` is where the system's /proc lies; tests have their
// own.
std::string ProcessorField(absl::string_view name, const std::string& root = "");

}  // namespace belfry
