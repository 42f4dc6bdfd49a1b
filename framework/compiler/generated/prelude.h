// The beginning of every generated kernel. Internal.
#pragma once

#include "absl/strings/string_view.h"

namespace belfry {

// Declarations that element code (OpDef::element_code) and the loops around it use: what it needs of <cmath>, <limits>
// and <type_traits>, the 16-bit floats, and packs of elements. Compiles with NVRTC, which has no headers, and for a
// host, whose headers it then includes.
absl::string_view KernelPrelude();

}  // namespace belfry
