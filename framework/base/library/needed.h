// The libraries that a shared library was linked with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry {

// The names in the dynamic section of the shared library `path` (DT_NEEDED), such as "libcudnn.so.9", in its order.
// Errors: NotFound if the file cannot be read, InvalidArgument if it is not an ELF file of this machine's word size.
absl::StatusOr<std::vector<std::string>> NeededLibraries(const std::filesystem::path& path);

}  // namespace belfry
