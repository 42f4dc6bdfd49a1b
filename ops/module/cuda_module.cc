#include <cstring>

#include "framework/base/status.h"
#include "framework/collective/cuda/collectives.h"
#include "framework/device/cuda/open.h"
#include "framework/device/gpu_module.h"
#include "ops/gpu/gpu_module.h"
#include "ops/gpu/library_versions.h"
#include "ops/module/gpu_kernels.h"

namespace belfry {
namespace {

absl::StatusOr<std::vector<std::unique_ptr<Device>>> Open(int count, const DeviceOptions& options) {
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Device>> devices, OpenCudaDevices(count, options));
  RETURN_IF_ERROR(ops::CheckCudaLibraries());
  return devices;
}

constexpr GpuDevices kDevices = {.open = &Open, .count = &CountCudaDevices};
constexpr ops::GpuKernels kKernels = {.add = &ops::AddGpuKernels};

}  // namespace
}  // namespace belfry

// The entry point of libbelfry_cuda.so (framework/base/module.h).
extern "C" const void* belfry_cuda_module(const char* part) {
  if (std::strcmp(part, "version") == 0) return BELFRY_BUILD;  // of the headers that the module was compiled with
  if (std::strcmp(part, "device") == 0) return &belfry::kDevices;
  if (std::strcmp(part, "collective") == 0) return &belfry::kCudaCollectives;
  if (std::strcmp(part, "ops") == 0) return &belfry::kKernels;
  return nullptr;
}
