// The CUDA module's table of collectives.
#pragma once

#include "framework/collective/gpu_module.h"

namespace belfry {

extern const GpuCollectives kCudaCollectives;

// NCCL itself (nccl_library.cc).
absl::StatusOr<std::shared_ptr<NcclApi>> OpenNcclLibrary();

}  // namespace belfry
