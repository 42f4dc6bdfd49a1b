#include <cstring>

#include "framework/collective/cuda/collectives.h"
#include "framework/device/cuda/open.h"
#include "framework/device/gpu_module.h"
#include "ops/gpu/gpu_kernels.h"
#include "ops/gpu/gpu_module.h"

namespace belfry {
namespace {

constexpr GpuDevices kDevices = {.open = &OpenCudaDevices, .count = &CountCudaDevices};
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
