// The CUDA module of this test: its devices over the fake CUDA runtime, and of collectives only which devices they
// reach.
#include <cstring>

#include "framework/base/version.h"
#include "framework/collective/gpu_module.h"
#include "framework/device/cuda/native.h"
#include "framework/device/cuda/open.h"
#include "framework/device/gpu_module.h"

namespace {

constexpr belfry::GpuDevices kDevices = {.open = &belfry::OpenCudaDevices, .count = &belfry::CountCudaDevices};
constexpr belfry::GpuCollectives kCollectives = {.reaches = &belfry::CanReach};

}  // namespace

extern "C" const void* belfry_cuda_module(const char* part) {
  if (std::strcmp(part, "version") == 0) return belfry::kBuild;
  if (std::strcmp(part, "collective") == 0) return &kCollectives;
  return std::strcmp(part, "device") == 0 ? &kDevices : nullptr;
}
