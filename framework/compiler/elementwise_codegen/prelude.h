// The beginning of every generated kernel. Internal.
#pragma once

#include "absl/strings/string_view.h"

namespace belfry {

// Declarations that element code (OpDef::element_code) and the loops around it use beyond what Device::CompileKernel
// has: attributes, and packs of elements.
absl::string_view KernelPrelude();

}  // namespace belfry
