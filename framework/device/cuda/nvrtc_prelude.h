// Stand-ins for the standard headers under NVRTC. Internal.
#pragma once

#include "absl/strings/string_view.h"

namespace belfry {

// Declarations for sources that NVRTC compiles without any header, as Device::CompileKernel promises them.
absl::string_view NvrtcPrelude();

}  // namespace belfry
