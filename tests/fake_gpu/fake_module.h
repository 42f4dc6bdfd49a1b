// The parts of the CUDA module that a test with fake GPUs may link.
#pragma once

#include "framework/collective/gpu_module.h"
#include "ops/gpu/gpu_module.h"

namespace belfry {

// Null in a program that does not link them.
const GpuCollectives* FakeGpuCollectives() __attribute__((weak));  // belfry_fake_gpu_collectives
const ops::GpuKernels* FakeGpuKernels() __attribute__((weak));     // belfry_fake_gpu_kernels

}  // namespace belfry
