#include "ops/module/gpu_kernels.h"
#include "tests/fake_gpu/fake_module.h"

namespace belfry {

const ops::GpuKernels* FakeGpuKernels() {
  static constexpr ops::GpuKernels kTable = {.add = &ops::AddGpuKernels};
  return &kTable;
}

}  // namespace belfry
