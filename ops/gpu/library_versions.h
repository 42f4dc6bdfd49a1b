// The libraries that kernels for GPUs call. Internal to the CUDA module.
#pragma once

#include "absl/status/status.h"

namespace belfry::ops {

// FailedPrecondition, with the file and what to install, if the cuDNN that the loader found is older than 9.8 or for
// another version of CUDA than the module; its soname is the same.
absl::Status CheckCudaLibraries();

}  // namespace belfry::ops
