// The CUDA module of this test: its devices over the fake CUDA runtime, and nothing else.
#include <cstring>

#include "framework/base/version.h"
#include "framework/device/cuda/open.h"
#include "framework/device/gpu_module.h"

namespace {

constexpr belfry::GpuDevices kDevices = {.open = &belfry::OpenCudaDevices, .count = &belfry::CountCudaDevices};

}  // namespace

extern "C" const void* belfry_cuda_module(const char* part) {
  if (std::strcmp(part, "version") == 0) return belfry::kBuild;
  return std::strcmp(part, "device") == 0 ? &kDevices : nullptr;
}
