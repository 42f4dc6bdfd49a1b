// The CUDA module of tests with fake GPUs. It opens no devices: tests make their own.
#include "tests/fake_gpu/fake_module.h"

#include <cstring>

#include "framework/base/version.h"

extern "C" const void* belfry_cuda_module(const char* part) {
  using belfry::FakeGpuCollectives;
  using belfry::FakeGpuKernels;
  if (std::strcmp(part, "version") == 0) return belfry::kBuild;
  if (std::strcmp(part, "collective") == 0) return FakeGpuCollectives == nullptr ? nullptr : FakeGpuCollectives();
  if (std::strcmp(part, "ops") == 0) return FakeGpuKernels == nullptr ? nullptr : FakeGpuKernels();
  return nullptr;
}
