// Loading NVIDIA's libraries from wherever a machine has them.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry {

// Opens a library of NVIDIA's by its soname, such as "libnccl.so.2", for dlsym: from the folders of BELFRY_CUDA_PATH,
// then as the loader finds it, then from CudaFolders() (cuda_folders.h). It stays loaded, and libraries that need it
// use it, whichever folder they are in. Thread-safe.
//
// NotFound names the library, the folders, and NVIDIA's packages that have it, for version `cuda` of CUDA, such as
// "13". FailedPrecondition, with the loader's words, if it is there and cannot be loaded.
absl::StatusOr<void*> OpenCudaLibrary(const std::string& soname, const std::string& cuda);

// Opens all libraries of NVIDIA's that the shared library `path` was linked with, so that the loader finds it complete;
// no others. One error for all missing ones.
absl::Status OpenNeededCudaLibraries(const std::filesystem::path& path);

// "/usr/lib/x86_64-linux-gnu/libcudnn.so.9": the file that has this function or variable; empty if none has.
std::string FileOf(const void* symbol);

}  // namespace belfry
