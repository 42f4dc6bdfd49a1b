// The drivers and cards that a CUDA module can use. Plain arithmetic; needs neither CUDA nor a GPU.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace belfry {

// "12.4" of 12040, as CUDA numbers its versions.
std::string CudaVersionText(int version);

// The sentence for a driver that supports only CUDA `driver`, of an earlier major version than `runtime`, the CUDA that
// the module was built with; both as CUDA numbers them. It names the oldest driver that would do.
std::string DriverIsTooOld(int driver, int runtime);

// OK if code compiled for `architectures` runs on a card of compute capability major.minor, and it is at least 8.0.
// `architectures` is a list as CMAKE_CUDA_ARCHITECTURES has it, separated by commas: "80-real,90". Machine code runs on
// cards of the same major version from the same minor version on, PTX on all later ones (CUDA C++ Programming Guide,
// "Application Compatibility"). A list that names no numbers, such as "native", is taken to fit every card.
absl::Status CheckCapability(int major, int minor, absl::string_view architectures);

}  // namespace belfry
